"""What a paper says about how its figures are computed."""

from collections.abc import Sequence
from dataclasses import replace

from steelyard.accounting.steady import MIN_STEADY_STEPS
from steelyard.comparison.intervals import FEWEST, LEVEL, error_at
from steelyard.comparison.phrases import plain_percent
from steelyard.reporting.paper import Block, Listing, Paper, Paragraph, Section

_MOST_COMMANDS = 24

RATES = (
    "The throughput of a run is the number of tokens of its steady window, divided by the time of these steps and by "
    "the number of GPUs. The window leaves out the warm-up, which ends when step times are steady. It also leaves out "
    "steps whose time contains an evaluation, a checkpoint, the profiler or a compilation."
)
MEMORY = "Peak memory is the highest value of any step and GPU. Shares refer to the memory that a program can use."
ONE_KIND = "The memory of both sides is compared in one kind of measurement only."
FLOPS = (
    "Model FLOPs per token are 6 (W + hV) + 6 Lqs: W weights in the matrix products of L layers, hidden size h, "
    "vocabulary V, width q of all heads, and sequence length s. Attention counts half, because its mask is causal, and "
    "recomputation does not count. MFU is this FLOP rate divided by the dense peak of the data sheet for the precision."
)


def intervals(margin: float) -> str:
    return (
        "A ratio is that of the geometric means of the runs of both sides. Its interval covers the true ratio with "
        f"{LEVEL:.0%} confidence (Welch's t on the logarithms of the figures) and needs at least {FEWEST} runs per "
        f"side. Differences below {plain_percent(margin)} count as too small to matter: a side is faster if the whole "
        "interval is beyond this margin, and the sides are equivalent if two one-sided tests place it within."
    )


def adjustment(cells: int) -> str:
    return (
        f"With {cells} cells, chance alone may make one of them look different. The conclusions of cells are therefore "
        f"adjusted by Holm's method: the chance of any wrong conclusion of one kind is at most {error_at(1):.0%} over "
        "all cells of a metric. The intervals of single cells are not adjusted."
    )


REFUSALS = (
    "A ratio is given only where both sides trained the same job: model, sequence length, tokens per step, precision "
    f"and GPU count must agree, and each run needs at least {MIN_STEADY_STEPS} steady steps. Otherwise the ratio is "
    "refused with its reason."
)


def methods_section(*texts: str) -> Section:
    return Section("methods", "Methods", [Paragraph([text]) for text in texts])


def reproduction_section(commands: Sequence[str]) -> Section:
    blocks: list[Block] = [
        Paragraph(
            ["These commands make the runs and the figures of this paper, in the directories where they were typed:"]
        ),
        Listing(commands[:_MOST_COMMANDS]),
    ]
    if len(commands) > _MOST_COMMANDS:
        blocks.append(Paragraph([f"The HTML report lists {len(commands) - _MOST_COMMANDS} more commands."]))
    return Section("reproduction", "Reproduction", blocks)


def with_records(paper: Paper, digest: str) -> Paper:
    """The paper with the digest of all records that it is made from, so that others do not fit it."""
    groups = " ".join(digest[at : at + 16] for at in range(0, len(digest), 16))
    last = paper.sections[-1]
    text = f"The records of these runs have the SHA-256 {groups}."
    return replace(paper, sections=[*paper.sections[:-1], replace(last, blocks=[*last.blocks, Paragraph([text])])])
