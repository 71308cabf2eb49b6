"""The command line: one module a verb, and the one place that turns an error into an exit status."""

import io
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from steelyard import __version__
from steelyard.cli import check, compare, demo, explain, ingest, init, lint, plan, preflight, report, run, runs
from steelyard.cli.options import DEBUG, help_unless_asked
from steelyard.cli.printing import note, show_error
from steelyard.errors import InputError, InterruptedByUser, SteelyardError

# We have no plugin of pydantic's, and looking for some among all that is installed takes longer than most commands.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

app = typer.Typer(
    name="steelyard",
    help="Weighs LLM training: runs it, judges it against physics, compares platforms.",
    epilog="Start with: steelyard demo, or steelyard init tiny-llama && steelyard run tiny-llama.yaml",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, init, lint, explain, plan, preflight, run, ingest, check, compare, report):
    name = module.__name__.rpartition(".")[2]
    app.command(name, epilog=module.EXAMPLES)(getattr(module, name))
app.add_typer(runs.app, name="runs")


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"steelyard {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print it.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG[0], help=DEBUG[1])] = False,
) -> None:
    help_unless_asked(context)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that is not text in this locale is still shown
    try:
        sys.exit(_status(given))
    except KeyboardInterrupt:
        error: SteelyardError = InterruptedByUser("interrupted before anything was made")
    except SteelyardError as known:
        error = known
    except Exception as unknown:  # noqa: BLE001 - the last resort: a person gets a sentence, --debug the rest
        text = f"an error of Steelyard's own, {type(unknown).__name__}: {unknown}"
        error = SteelyardError(text, next="the same command with --debug")
        error.__cause__ = unknown
    if "--debug" in given:
        note("".join(traceback.format_exception(error)).rstrip())
    show_error(error, "--json" in given)
    sys.exit(error.exit)


def _status(arguments: list[str]) -> int:
    try:
        return int(app(arguments, prog_name="steelyard", standalone_mode=False) or 0)
    except typer.Abort as ended:  # what the parser makes of an interrupt, and of a file that ends too soon
        if isinstance(ended.__context__, EOFError):
            raise ended.__context__ from None
        raise KeyboardInterrupt from None
    except typer.TyperException as wrong:
        raise _usage_error(wrong, arguments) from None


def _usage_error(wrong: typer.TyperException, arguments: list[str]) -> InputError:
    """The parser's complaint as ours, with the value it leaves out."""
    context, parameter = getattr(wrong, "ctx", None), getattr(wrong, "param", None)
    names = parameter.opts if parameter is not None else []
    option, value = _typed([getattr(wrong, "option_name", None), *names], arguments)
    if parameter is None:
        value = None
    message = wrong.format_message().rstrip(".") + ("" if value is None else f" ({option} {value})")
    way_on = f"{context.command_path if context else 'steelyard'} --help"
    return InputError(message, key=option or next(iter(names), None), value=value, next=way_on)


def _typed(options: list[str | None], arguments: list[str]) -> tuple[str | None, str | None]:
    """An option as it was typed, `--option value` or `--option=value`; of several the last, which counts."""
    for at in reversed(range(len(arguments))):
        option, given, value = arguments[at].partition("=")
        if option in options:
            return option, value if given else next(iter(arguments[at + 1 :]), None)
    return None, None
