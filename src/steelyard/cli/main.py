"""The command line: one table from verb to function, and the one place that turns an error into an exit status."""

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

from steelyard import __version__
from steelyard.cli import check, compare, demo, explain, ingest, init, lint, plan, preflight, report, run, runs
from steelyard.cli.options import DebugOption, help_unless_asked
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
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("init", epilog=init.EXAMPLES)(init.init)
app.command("lint", epilog=lint.EXAMPLES)(lint.lint)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan)
app.command("preflight", epilog=preflight.EXAMPLES)(preflight.preflight)
app.command("run", epilog=run.EXAMPLES)(run.run)
app.command("ingest", epilog=ingest.EXAMPLES)(ingest.ingest)
app.command("check", epilog=check.EXAMPLES)(check.check)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.add_typer(runs.app, name="runs")


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"steelyard {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    help_unless_asked(context)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json, debug = "--json" in given, "--debug" in given
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
    _fail(error, as_json, debug)


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
    context = getattr(wrong, "ctx", None)
    parameter = getattr(wrong, "param", None)
    options = [getattr(wrong, "option_name", None), *(parameter.opts if parameter is not None else [])]
    option, value = _typed([option for option in options if option], arguments)
    if parameter is None:
        value = None
    message = wrong.format_message().rstrip(".")
    return InputError(
        message if value is None else f"{message} ({option} {value})",
        key=option or (parameter.opts[0] if parameter is not None else None),
        value=value,
        next=f"{context.command_path if context else 'steelyard'} --help",
    )


def _typed(options: list[str], arguments: list[str]) -> tuple[str | None, str | None]:
    """An option as it was typed, `--option value` or `--option=value`; of several the last, which counts."""
    for at in reversed(range(len(arguments))):
        option, given, value = arguments[at].partition("=")
        if option in options:
            return option, value if given else next(iter(arguments[at + 1 :]), None)
    return None, None


def _fail(error: SteelyardError, as_json: bool, debug: bool) -> NoReturn:
    from steelyard.cli import printing

    if debug:
        import traceback

        printing.note("".join(traceback.format_exception(error)).rstrip())
    printing.show_error(error, as_json)
    sys.exit(error.exit)
