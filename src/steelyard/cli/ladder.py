"""steelyard plan --ladder A B: a suite that changes the baseline into the target, one setting after the other."""

import shlex
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

from steelyard.cli import printing
from steelyard.cli.diff import Compared, config_side, is_config, names_of, naming, per_side, run_side, unstarted
from steelyard.cli.options import as_options
from steelyard.cli.printing import Style
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from steelyard.api import PlacedSelection
    from steelyard.campaign.ladder import Baseline, PlannedLadder
    from steelyard.cli.plan import PlanOptions
    from steelyard.records import Run

DEFAULT = Path("ladder.yaml")


def plan_ladder(options: "PlanOptions") -> int:
    """Show the ladder, and write it if there is a file to write to."""
    from steelyard.campaign import ladder
    from steelyard.comparison.side import Side

    texts = _two_sides(options)
    if options.output is not None and options.output.exists():
        complaint, expected = f"{options.output} exists already", "a new file"
        another = options.output.with_stem(f"{options.output.stem}-2")
        raise InputError(complaint, key="-o", value=str(options.output), expected=expected, next=f"-o {another}")
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(TemporaryDirectory(prefix="steelyard-"))) for _ in texts]
        selections = per_side(options)
        target = _target(texts[0], selections[0], folders[0], options)
        baseline, base = _baseline(texts[1], selections[1], folders[1], options)
        called = names_of(target, baseline)
        sides = (
            Side("target", target.subjects, (), called[0]),
            Side("baseline", baseline.subjects, (), called[1]),
        )
        runs: dict[str, list[Run]] = {
            side.name: [subject.run for subject in side.subjects]
            for side, text in zip(sides, texts, strict=True)
            if not is_config(text)
        }
        made = ladder.plan_ladder(sides, runs, base)
    if options.output is not None:
        _write(options.output, made.text)
    if options.as_json:
        printing.show_json({**made.document(), "file": str(options.output.resolve()) if options.output else None})
    else:
        _show(made, options)
    return Exit.GOOD


def _two_sides(options: "PlanOptions") -> tuple[str, str]:
    """The target and the baseline; of one file with two platforms, the file twice."""
    for option, is_given in (("--script", options.as_script), ("--fill", options.fill)):
        if is_given:
            complaint, expected = f"{option} is for one plan, and a ladder has several", "--ladder alone"
            raise InputError(complaint, key=option, expected=expected, next=f"the same command without {option}")
    if options.baseline is not None:
        return str(options.file), options.baseline
    if options.platform is None or "," not in options.platform:
        complaint, expected = "--ladder has one side", "a target and a baseline: configs or runs"
        way_on = f"steelyard plan --ladder {shlex.quote(str(options.file))} BASELINE, or --platform TARGET,BASELINE"
        raise InputError(complaint, key="--ladder", value=str(options.file), expected=expected, next=way_on)
    return str(options.file), str(options.file)


def _target(text: str, selection: "PlacedSelection", folder: Path, options: "PlanOptions") -> Compared:
    if not is_config(text):
        return run_side("A", text, options.out)
    with naming(selection):
        return config_side(Path(text), selection, folder)


def _baseline(
    text: str, selection: "PlacedSelection", folder: Path, options: "PlanOptions"
) -> tuple[Compared, "Baseline"]:
    from steelyard.campaign.ladder import Baseline
    from steelyard.campaign.ladder_file import recorded_platform
    from steelyard.cli.plan import planned
    from steelyard.configs.choose import asked_of
    from steelyard.hardware.machine import discover

    if is_config(text):
        with naming(selection):
            case = planned(Path(text), selection).case
        side = unstarted(case, folder)
        platform = case.resolved.platform.model_dump(mode="json", exclude_defaults=True, exclude={"overrides"})
    else:
        side = run_side("B", text, options.out)
        platform = recorded_platform(side.subjects[0])
        printing.note(f"{text}: platform as recorded, without container and variables; to have these, give its config")
    asked = asked_of(**_placed(options))
    return side, Baseline(platform, options.output or DEFAULT, asked, discover())


def _placed(options: "PlanOptions") -> "PlacedSelection":
    """The options that a file cannot contain: hosts, and lint codes that are allowed."""
    nodes = options.nodes if options.cluster else None
    return cast("PlacedSelection", {"cluster": options.cluster, "nodes": nodes, "allow": options.allow})


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as reason:
        complaint, expected = f"{path} cannot be written ({reason.strerror})", "a new file in a writable directory"
        raise InputError(complaint, key="-o", value=str(path), expected=expected, next=f"-o {DEFAULT}") from None


def _show(made: "PlannedLadder", options: "PlanOptions") -> None:
    from steelyard.comparison.codes import shown

    target, baseline = (side.called for side in made.sides)
    changes = len(made.rungs) - 1
    head = f"from {baseline} to {target}"
    printing.say(f"{head}: {changes} change{'s' * (changes != 1)}, {len(made.rungs)} rungs", Style.STRONG, len(head))
    rows = [
        (rung.name if at == 0 else "", change.key, shown(change.before), "->", shown(change.after))
        for rung in made.rungs
        for at, change in enumerate(rung.changes)
    ]
    printing.table(rows, "  ")
    for at, reason in enumerate(made.left_out):
        if not at:
            printing.say("in no rung, so the rest contains it:", Style.STRONG)
        printing.item("  ", reason.message, 4)
    file = options.output or DEFAULT
    if options.output is None:
        printing.say(f"next: the same command with -o {DEFAULT}")
    else:
        printing.say(f"wrote {file}")
        printing.say(
            f"next: steelyard run {shlex.quote(str(file))}{as_options(_placed(options))} --suite --name {file.stem}"
        )
