"""Writes the generated pages of this folder: python docs/reference/make.py."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from steelyard.cli.explain import reason_codes
from steelyard.cli.main import app
from steelyard.configs.meanings import page as parity_page
from steelyard.configs.reference import cluster_page, family_page
from steelyard.experiment.reference import page as experiment_page
from steelyard.hardware.catalog import CATALOGUED, PRECISIONS, Gpu
from steelyard.linting.explain import page as lint_page

HERE = Path(__file__).parent
CODES = """# Reason codes

Made by `python docs/reference/make.py` from the code; `steelyard explain first_loss_off` prints the same.

A code names what was found. `preflight --json` and `check --json` have one per finding, `compare --json` one per
reason, tier and diagnosis. Use codes in scripts: they stay the same where the wording of `message` changes.
"""


def codes_page() -> str:
    parts = [CODES]
    for stage, codes in reason_codes().items():
        rows = [f"| `{code.name}` | {meaning} |" for code, meaning in codes.items()]
        parts.append("\n".join([f"## {stage.capitalize()}\n", "| code | meaning |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


GPUS = """# GPUs

```sh
steelyard ingest train.log --gpu h100 --gpus 8
```

Made by `python docs/reference/make.py` from the catalog. Rates are compared with these peaks: dense TFLOP/s per
device, without structured sparsity, accumulated in fp32. `fp32` is the TF32 rate where the GPU has it. Memory is GiB
as the runtime reports it.

A device is what torch or JAX counts. So the figures of an MI250 or MI250X are of one of its two GCDs, and those of a
TPU v7 of half a chip.

Only whole names match: an H100 PCIe is another GPU than an H100. A bare name such as `h100` is the SXM module.

For a GPU that is not listed, [state its figures](../how-to/ingest.md#name-the-gpu). Intel and Google devices can be
named for logs; `plan` and `run` need an NVIDIA or AMD GPU.
"""


def gpus_page() -> str:
    head = f"| name | {' | '.join(name for name in PRECISIONS if name != 'fp4')} | GiB | other names |"
    rows = [_gpu(gpu) for gpu in CATALOGUED]
    return "\n".join([GPUS, head, "| --- " * 7 + "|", *rows, ""])


def _gpu(gpu: Gpu) -> str:
    peaks = [f"{gpu.peaks[name]:,}" if name in gpu.peaks else "" for name in PRECISIONS if name != "fp4"]
    sizes = str(gpu.usable_gib or f"see {', '.join(f'`{name}`' for name in gpu.variants)}")
    sizes += f" ({gpu.ecc_gib} with ECC)" if gpu.ecc_gib else ""
    return f"| `{gpu.name}` | {' | '.join(peaks)} | {sizes} | {', '.join(gpu.aliases)} |"


COMMANDS = """# Commands

```sh
steelyard --help
steelyard VERB --help
```

Made by `python docs/reference/make.py` from the command line itself. Every verb takes `--json` for one JSON document
on standard output and `--debug` for the traceback of an error. [Exit statuses](exit-statuses.md) and
[JSON documents](json.md) have pages of their own.
"""
IN_EVERY_TABLE = {"json", "debug", "help", "as_json"}


def commands_page() -> str:
    return "\n".join([COMMANDS, *_sections(typer.main.get_command(app), "")])


def _sections(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _sections(command, f"{prefix}{name} ")
        else:
            yield _section(f"{prefix}{name}", command)


def _section(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name not in IN_EVERY_TABLE
    ]
    rows = [f"| `{_usage(each)}` | {_text(each.help)} | |" for each in arguments]
    rows += [f"| `{_usage(each)}` | {_text(each.help)} | {_default(each)} |" for each in options]
    table = ["| argument or option | meaning | default |", "| --- | --- | --- |", *rows, ""] if rows else []
    examples = ["```sh", *_examples(command.epilog or ""), "```", ""]
    return "\n".join([f"## {name}\n", *examples, f"{_text(inspect.cleandoc(command.help or ''))}\n", *table])


def _usage(parameter: Any) -> str:
    metavar = "" if getattr(parameter, "is_flag", False) else (parameter.metavar or parameter.type.name.upper())
    names = [] if parameter.param_type_name == "argument" else sorted(parameter.opts, key=len)
    return " ".join([*names, *([metavar] if metavar else [])]).replace("|", "\\|")


def _text(text: str) -> str:
    return " ".join(text.replace("\b", "").split()).replace("|", "\\|").replace("<", "&lt;")


def _default(option: Any) -> str:
    default = option.default
    return "" if callable(default) or default in (None, False, ()) or not option.show_default else f"`{default}`"


def _examples(epilog: str) -> list[str]:
    """One command per line, however the epilog has them."""
    text = epilog.replace("\b", "").replace("Examples:", "").strip()
    lines = text.splitlines() if "\n" in text else re.split(r" \| (?=steelyard)", text)
    return [line.strip() for line in lines if line.strip()]


PAGES = {
    HERE / "commands.md": commands_page,
    HERE / "experiment.md": experiment_page,
    HERE / "megatron.md": lambda: family_page("megatron"),
    HERE / "jax.md": lambda: family_page("jax"),
    HERE / "cluster.md": cluster_page,
    HERE / "frameworks.md": parity_page,
    HERE / "codes.md": codes_page,
    HERE / "gpus.md": gpus_page,
    HERE / "lint.md": lint_page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
