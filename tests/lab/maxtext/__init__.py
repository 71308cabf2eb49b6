"""Real MaxText for the lab's images, out of an environment that `make integration-maxtext` made."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lab import images

ENVIRONMENT = Path(os.environ["STEELYARD_MAXTEXT"]).resolve() if "STEELYARD_MAXTEXT" in os.environ else None
"""Where it lies; None where there is none."""
IMAGE = "maxtext:0.2.5"


def shared_paths() -> list[str]:
    """The environment and the Python it was made from."""
    assert ENVIRONMENT is not None
    return [str(ENVIRONMENT), str((ENVIRONMENT / "bin/python").resolve().parents[1])]


def image_env() -> dict[str, str]:
    """The variables of an image whose `python3` is MaxText's."""
    return {
        **images.python_env(),
        "PATH": f"{ENVIRONMENT}/bin:{images.PATH}",
        "DECOUPLE_GCLOUD": "TRUE",  # it is built to report to a cloud
    }


def keep(run: Path, to: Path, names: Mapping[str, str]) -> None:
    """Keep a run's directory as a record: as it is, but for folders of this machine, which get other names."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(run, to)
    for path in to.rglob("*"):
        if path.is_file():
            text = path.read_text()
            for folder, name in names.items():
                text = text.replace(folder, name)
            path.write_text(text)
