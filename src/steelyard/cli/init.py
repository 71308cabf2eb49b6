"""steelyard init [NAME]: lists the packaged configs, or writes one here."""

from dataclasses import dataclass
from pathlib import Path

from steelyard.cli import printing
from steelyard.cli.options import Printing, argument, examples
from steelyard.cli.verb import verb
from steelyard.errors import InputError

EXAMPLES = examples("steelyard init", "steelyard init tiny-llama")


def _names(incomplete: str) -> list[str]:
    from steelyard.experiment import packaged

    return [name for name in packaged.DESCRIPTIONS if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class InitOptions(Printing):
    name: str | None = argument("NAME", "The config to write; without it, all are listed.", None, autocompletion=_names)


@verb
def init(options: InitOptions) -> None:
    """List the packaged configs, or write one here."""
    from steelyard.experiment import packaged

    path, name = None, options.name
    if name is not None:
        content, path = packaged.text(name), Path(packaged.file_name(name))
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            raise InputError(
                f"{path} exists already", key="NAME", value=name, expected="a new file", next=f"steelyard lint {path}"
            ) from None
        except OSError as reason:
            complaint, next_step = f"{path} cannot be written ({reason.strerror})", "change to a writable directory"
            raise InputError(complaint, key="NAME", value=name, next=next_step) from None
    if options.as_json:
        configs = [{"name": key, "description": text} for key, text in packaged.DESCRIPTIONS.items()]
        printing.show_json({"configs": None if path else configs, "file": str(path.resolve()) if path else None})
    elif path:
        printing.say(f"wrote {path}; next: steelyard lint {path}")
    else:
        width = max(map(len, packaged.DESCRIPTIONS))
        for key, text in packaged.DESCRIPTIONS.items():
            printing.item(f"{key:<{width}}  ", text)
        printing.say("next: steelyard init tiny-llama")
