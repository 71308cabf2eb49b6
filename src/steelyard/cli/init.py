"""steelyard init [NAME]: lists the packaged configs, or writes one here."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import DebugOption, JsonOption

EXAMPLES = "Examples: steelyard init | steelyard init tiny-llama"


def init(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which config to write.")] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the packaged configs, or write NAME here."""
    from steelyard.cli import printing
    from steelyard.errors import InputError
    from steelyard.experiment import packaged

    if name is None:
        if as_json:
            configs = [{"name": key, "description": text} for key, text in packaged.DESCRIPTIONS.items()]
            printing.show_json({"configs": configs, "file": None})
            return
        width = max(map(len, packaged.DESCRIPTIONS))
        for key, text in packaged.DESCRIPTIONS.items():
            printing.say(f"{key:<{width}}  {text}")
        return
    content = packaged.text(name)
    path = Path(packaged.file_name(name))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise InputError(
            f"{path} exists already", key="NAME", value=name, expected="a new file", next=f"steelyard lint {path}"
        ) from None
    except OSError as reason:
        raise InputError(f"{path} cannot be written ({reason.strerror})", key="NAME", value=name) from None
    if as_json:
        printing.show_json({"configs": None, "file": str(path.resolve())})
    else:
        printing.say(f"wrote {path}; next: steelyard lint {path}")
