"""How long each phase of a run on hosts may take, and how long a silence is borne."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds."""

    reach: float = 30.0
    lock: float = 30.0
    preflight: float = 300.0
    image: float = 3600.0
    prepare: float = 120.0
    start: float = 180.0
    counters: float = 25.0
    """To read a host's counters, before the start and after the end."""
    first_step: float = 1800.0
    """From the start to the first step: compilation, data, rendezvous."""
    train: float | None = None
    """Of the training program from its start to its exit; None for what the plan allows at the slowest."""
    exit: float = 1800.0
    """From the last planned step to the exit of the training program: a last checkpoint takes its time."""
    stall_medians: float = 10.0
    """A step may take so many times the median of those before."""
    stall_at_least: float = 300.0
    """And so long, whatever the median: evaluation and checkpoints take their time."""
    lost: float = 120.0
    """How long a host may be out of reach before it is given up."""
    lease: int = 3600
    """A job whose runner was not heard of for so long ends itself and leaves nothing; 0 for never."""
    settle: float = 3.0
    """After the first failure, for what other nodes have to say of it."""
    grace: int = 10
    """Between asking a job to end and making it."""
    clean: float = 90.0
