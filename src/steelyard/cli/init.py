"""steelyard init [NAME]: lists the packaged configs, or writes one here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import Printing
from steelyard.cli.verb import verb

EXAMPLES = "Examples: steelyard init | steelyard init tiny-llama"


@dataclass(frozen=True, kw_only=True)
class InitOptions(Printing):
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which config to write.")] = None


@verb
def init(options: InitOptions) -> None:
    """List the packaged configs, or write NAME here."""
    from steelyard.cli import printing
    from steelyard.errors import InputError
    from steelyard.experiment import packaged

    if options.name is None:
        if options.as_json:
            configs = [{"name": key, "description": text} for key, text in packaged.DESCRIPTIONS.items()]
            printing.show_json({"configs": configs, "file": None})
            return
        width = max(map(len, packaged.DESCRIPTIONS))
        for key, text in packaged.DESCRIPTIONS.items():
            printing.say(f"{key:<{width}}  {text}")
        return
    content = packaged.text(options.name)
    path = Path(packaged.file_name(options.name))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise InputError(
            f"{path} exists already",
            key="NAME",
            value=options.name,
            expected="a new file",
            next=f"steelyard lint {path}",
        ) from None
    except OSError as reason:
        raise InputError(f"{path} cannot be written ({reason.strerror})", key="NAME", value=options.name) from None
    if options.as_json:
        printing.show_json({"configs": None, "file": str(path.resolve())})
    else:
        printing.say(f"wrote {path}; next: steelyard lint {path}")
