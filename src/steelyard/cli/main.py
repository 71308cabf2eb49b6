"""The command line: one module per verb. Only this module maps errors to exit statuses."""

import io
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from steelyard import __version__
from steelyard.cli import (
    check,
    compare,
    data,
    demo,
    diff,
    explain,
    ingest,
    init,
    lint,
    plan,
    preflight,
    report,
    run,
    runs,
    verify,
)
from steelyard.cli.options import DEBUG, examples, help_unless_asked
from steelyard.cli.printing import note, show_error
from steelyard.cli.verb import VerbCommand, VerbGroup
from steelyard.errors import InputError, InterruptedByUser, SteelyardError

# Steelyard uses no plugins of pydantic, and the search for them takes longer than most commands.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

app = typer.Typer(
    name="steelyard",
    cls=VerbGroup,
    help="Weighs LLM training: runs it, judges it against physics, compares platforms.",
    epilog=examples("steelyard demo", "steelyard init tiny-llama", "steelyard run tiny-llama.yaml"),
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, init, lint, explain, plan, diff, preflight, run, ingest, check, compare, report, verify):
    name = module.__name__.rpartition(".")[2]
    app.command(name, cls=VerbCommand, epilog=module.EXAMPLES)(getattr(module, name))
for verb_of_runs in runs.app.registered_commands:
    verb_of_runs.cls = VerbCommand
for verb_of_data in data.app.registered_commands:
    verb_of_data.cls = VerbCommand
app.add_typer(data.app, name="data", cls=VerbGroup)
app.add_typer(runs.app, name="runs", cls=VerbGroup)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"steelyard {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG[0], help=DEBUG[1])] = False,
) -> None:
    help_unless_asked(context)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # shows names that are not text in this locale
    try:
        sys.exit(_status(given))
    except KeyboardInterrupt:
        error: SteelyardError = InterruptedByUser("interrupted before anything was written")
    except SteelyardError as known:
        error = known
    except Exception as unknown:  # noqa: BLE001 - the last resort: one sentence, and the traceback with --debug
        text = f"internal error, {type(unknown).__name__}: {unknown}"
        error = SteelyardError(text, next="the same command with --debug, and report its output")
        error.__cause__ = unknown
    if "--debug" in given:
        note("".join(traceback.format_exception(error)).rstrip())
    show_error(error, "--json" in given)
    sys.exit(error.exit)


def _status(arguments: list[str]) -> int:
    try:
        return int(app(arguments, prog_name="steelyard", standalone_mode=False) or 0)
    except typer.Abort as ended:  # the parser raises it for an interrupt, and for a file that ends too early
        if isinstance(ended.__context__, EOFError):
            raise ended.__context__ from None
        raise KeyboardInterrupt from None
    except typer.TyperException as wrong:
        raise _usage_error(wrong, arguments) from None


def _usage_error(wrong: typer.TyperException, arguments: list[str]) -> InputError:
    """The error of the parser as ours, with the value that its message does not contain."""
    context, parameter = getattr(wrong, "ctx", None), getattr(wrong, "param", None)
    names = parameter.opts if parameter is not None else []
    option, value = _typed([getattr(wrong, "option_name", None), *names], arguments)
    if parameter is None:
        value = None
    message = wrong.format_message().rstrip(".") + ("" if value is None else f" ({option} {value})")
    help_command = f"{context.command_path if context else 'steelyard'} --help"
    return InputError(message, key=option or next(iter(names), None), value=value, next=help_command)


def _typed(options: list[str | None], arguments: list[str]) -> tuple[str | None, str | None]:
    """The name and value of an option as typed, `--option value` or `--option=value`; the last one if repeated."""
    for at in reversed(range(len(arguments))):
        option, given, value = arguments[at].partition("=")
        if option in options:
            return option, value if given else next(iter(arguments[at + 1 :]), None)
    return None, None
