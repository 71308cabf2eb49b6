"""A lab for integration tests: hosts with ssh servers and Docker engines of their own, on one machine."""

from lab import images
from lab.host import Host
from lab.images import Executable
from lab.lab import CONTROL, CONTROL_DISK, LOGIN, Lab
from lab.namespaces import LabError
from lab.needs import reasons_not_to

__all__ = ["CONTROL", "CONTROL_DISK", "LOGIN", "Executable", "Host", "Lab", "LabError", "images", "reasons_not_to"]
