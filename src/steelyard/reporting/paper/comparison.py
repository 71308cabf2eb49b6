"""The paper of a comparison, of one cell or of many."""

from collections.abc import Iterator

from steelyard.comparison import NAME_OF, Metric
from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement
from steelyard.comparison.phrases import listed, plural
from steelyard.reporting.claims import disclaimers
from steelyard.reporting.figures import figure_name
from steelyard.reporting.page import as_sentence, typeset
from steelyard.reporting.paper import (
    ABSTRACT,
    Block,
    Bullets,
    Equation,
    Paper,
    PaperTable,
    Paragraph,
    Ref,
    Section,
    methods,
)
from steelyard.reporting.paper.cells import Cells, axis_title
from steelyard.reporting.paper.results import (
    absence_sentences,
    alike_sentence,
    answer,
    mean_sentence,
    refusal_sentences,
    result_blocks,
)
from steelyard.reporting.paper.setup import IN_TABLES, Column, distinct, model_names, platform_words, setup_blocks
from steelyard.reporting.paper.texts import Values
from steelyard.verdict import Subject

_MOST_SETTINGS = 16
_MOST_LIMITS = 12


def comparison_paper(made: Cells) -> Paper:
    target, baseline = made.names
    models = listed(model_names(_subjects(made)) or ["a model"])
    return Paper(
        name=figure_name(f"{target}-vs-{baseline}"),
        title=f"Training {models}: {target} compared with {baseline}",
        subject=f"{_platform(made, 0)} and {_platform(made, 1)}",
        sections=[
            Section(ABSTRACT, "Abstract", list(_abstract(made, models))),
            Section("introduction", "Introduction", list(_introduction(made, models))),
            Section("setup", "Experimental setup", list(_setup(made))),
            Section("metrics", "Metrics", list(_metrics(made))),
            Section("results", "Results", list(result_blocks(made))),
            Section("limitations", "Limitations", list(_limitations(made))),
            methods.methods_section(*_methods(made)),
            methods.reproduction_section(made.commands),
        ],
        banner=made.banner,
    )


def values_of(made: Cells) -> Values:
    """What the placeholders of a user's text stand for."""
    subjects = _subjects(made)
    return {
        "target": made.names[0],
        "baseline": made.names[1],
        "target_platform": platform_words(made.subjects(0)),
        "baseline_platform": platform_words(made.subjects(1)),
        "model": listed(model_names(subjects) or ["a model"]),
        "precision": distinct(subject.precision for subject in subjects),
        "cells": str(len(made.cells)),
        "runs": str(len(subjects)),
        **{name: _ratio_value(made, metric) for metric, name in NAME_OF.items()},
    }


def _ratio_value(made: Cells, metric: Metric) -> str:
    """The ratio of the only cell, or the mean over all."""
    mean = made.means[metric]
    ratio = made.only.ratios[metric] if made.only else None
    value = ratio.value if ratio else mean.value if mean else None
    return "unknown" if value is None else f"{value:.3f}"


def _subjects(made: Cells) -> list[Subject]:
    return [*made.subjects(0), *made.subjects(1)]


def _platform(made: Cells, side: int) -> str:
    """The name of a side, with its GPUs."""
    subjects = made.subjects(side)
    return f"{made.names[side]} ({platform_words(subjects)})" if subjects else made.names[side]


def _abstract(made: Cells, models: str) -> Iterator[Block]:
    target, baseline = (_platform(made, side) for side in (0, 1))
    many = f" in {len(made.cells)} cells" if made.only is None else ""
    first = f"We compare the training of {models} on {target} and {baseline}{many}."
    yield Paragraph([" ".join([first, *_answers(made)])])


def _answers(made: Cells) -> Iterator[str]:
    """One sentence per question; questions with one reason for having no answer share it."""
    if (only := made.only) is not None:
        yield from (answer(only, metric) for metric in made.asked if only.comparable[metric].holds)
        yield from refusal_sentences(only)
        return
    for metric in made.asked:
        yield mean_sentence(made, metric) if metric in NAME_OF else alike_sentence(made)
    yield from absence_sentences(made)
    refused = sum(not comparison.comparable[metric].holds for comparison in made.compared for metric in made.asked[:1])
    if refused:
        yield f"{plural(refused, 'cell')} could not be compared; the tables give the reasons."


def _introduction(made: Cells, models: str) -> Iterator[Block]:
    target, baseline = made.names
    questions = {
        Metric.THROUGHPUT: "how fast each side trains",
        Metric.MEMORY: "how much memory it needs",
        Metric.FLOPS: "how much of the peak rate of its GPUs it uses",
        Metric.CONVERGENCE: "whether both sides learn alike",
    }
    asked = [words for metric, words in questions.items() if metric in made.asked or metric in NAME_OF]
    yield Paragraph(
        [
            f"This paper reports how {target} and {baseline} train {models}. It asks {listed(asked)}. All figures are "
            "computed by one method from the records of the runs."
        ]
    )
    if made.axes:
        axes = [f"{axis_title(axis).lower()} ({distinct(_values(made, axis))})" for axis in made.axes]
        yield Paragraph([f"The comparison has {plural(len(made.cells), 'cell')}, which differ in {listed(axes)}."])
    yield Paragraph([methods.REFUSALS])


def _values(made: Cells, axis: str) -> Iterator[str]:
    return (shown(cell.values.get(axis)) for cell in made.cells)


def _setup(made: Cells) -> Iterator[Block]:
    yield from setup_blocks([Column(name, made.subjects(side)) for side, name in enumerate(made.names)])
    rows = _differences(made)
    if not rows:
        yield Paragraph(["All other settings that both sides recorded are equal."])
        return
    more = f" The HTML report lists {len(rows) - _MOST_SETTINGS} more." if len(rows) > _MOST_SETTINGS else ""
    yield Paragraph([Ref("Table", "differences"), f" lists the other settings that differ.{more}"])
    caption = "Other settings that differ between the sides."
    yield PaperTable("differences", caption, ["Setting", *made.names], rows[:_MOST_SETTINGS], words=(0, 1, 2))


def _differences(made: Cells) -> list[list[str]]:
    """Settings that differ, without those in the tables above; of several cells, all their values."""
    values: dict[str, tuple[list[str], list[str]]] = {}
    for comparison in made.compared:
        for clause in comparison.contract:
            if clause.status == Agreement.DIFFERENT and clause.dotted not in IN_TABLES:
                sides = values.setdefault(clause.dotted, ([], []))
                for side, value in zip(sides, (clause.target, clause.baseline), strict=True):
                    side.append(shown(value))
    return [[_setting_name(dotted), *map(distinct, sides)] for dotted, sides in values.items()]


def _setting_name(dotted: str) -> str:
    """`Overlap grad reduce`; `Data seed`, because there are others."""
    group, _, key = dotted.partition(".")
    words = (f"{group} {key}" if group == "data" else key).replace("_", " ")
    return f"{words[:1].upper()}{words[1:]}"


def _metrics(made: Cells) -> Iterator[Block]:
    target, baseline = made.names
    yield Paragraph(["Three ratios compare the sides. Training throughput is the number of tokens per second and GPU:"])
    yield Equation("throughput", "ThroughputSpeedup", "TrainingThroughput", target, baseline)
    yield Paragraph([f"A value above 1 means that {target} trains faster. Memory usage is the peak memory per GPU:"])
    yield Equation("memory", "MemoryUsageEfficiency", "MemoryUsage", baseline, target)
    yield Paragraph(
        [
            f"A value above 1 means that {target} needs less memory for the same work. FLOPs usage is the model FLOPs "
            "utilization (MFU), the share of the peak FLOP rate that the training uses:"
        ]
    )
    yield Equation("flops", "FLOPsUtilization", "FLOPsUsage", target, baseline)
    yield Paragraph([f"A value above 1 means that {target} uses more of what its GPUs can compute."])


def _limitations(made: Cells) -> Iterator[Block]:
    """What the comparison does not show, most widely shared first."""
    limits: dict[str, list[str]] = {}
    for cell in made.cells:
        for points in disclaimers(cell.comparison) if cell.comparison else ():
            for point in points.points:
                limits.setdefault(point.text, []).append(cell.label)
    if not limits:
        yield Paragraph(["No check limits these results."])
        return
    yield Paragraph(["These limits follow from checks that failed or had no data:"])
    ordered = sorted(limits.items(), key=lambda entry: -len(entry[1]))
    texts = [_limit(text, cells, len(made.compared)) for text, cells in ordered]
    yield Bullets(texts[:_MOST_LIMITS])
    if len(texts) > _MOST_LIMITS:
        yield Paragraph([f"The HTML report lists {plural(len(texts) - _MOST_LIMITS, 'further limit')}."])


def _limit(text: str, cells: list[str], of_all: int) -> str:
    where = "" if len(cells) == of_all else f" ({', '.join(cells)})"
    return as_sentence(f"{typeset(text).removesuffix('.')}{where}", capital=True)


def _methods(made: Cells) -> Iterator[str]:
    yield methods.RATES
    yield methods.intervals(made.margin)
    if len(made.cells) > 1:
        yield methods.adjustment(len(made.cells))
    yield f"{methods.MEMORY} {methods.ONE_KIND}"
    yield methods.FLOPS
