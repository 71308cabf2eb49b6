"""From a plan to processes to a record."""

from steelyard.execute.executor import RunOptions
from steelyard.execute.image import ImageSource
from steelyard.execute.launch import check, execute, execute_until, new_run
from steelyard.execute.limits import Limits

__all__ = ["ImageSource", "Limits", "RunOptions", "check", "execute", "execute_until", "new_run"]
