"""How often a comparison answers right where the truth is known: `campaigns.py` under the name of its page.

    python benchmarks/statistics.py

Its neighbors, and our own readers of logs, import the standard library's module of this name. Python looks in the
folder of a script first, so this file hands them that module.
"""

import sys

if __name__ == "__main__":
    from campaigns import main

    sys.exit(main())

import importlib.util
import sysconfig
from pathlib import Path

NAME = "statistics"
spec = importlib.util.spec_from_file_location(NAME, Path(sysconfig.get_path("stdlib")) / f"{NAME}.py")
assert spec is not None
assert spec.loader is not None
sys.modules[NAME] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[NAME])
