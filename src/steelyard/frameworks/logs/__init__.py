"""Reads the logs of every framework; one module a dialect."""


def conventions_of(dialect: str, era: str) -> tuple[str, ...]:
    """The FLOP formulas, of `accounting.CONVENTIONS`, that lines of this dialect and era may follow; () if unknown."""
    from steelyard.frameworks.logs.reader import DIALECTS  # here, since a run of our own needs none of them

    found = next((one for one in DIALECTS if one.name == dialect), None)
    return found.flop_conventions(era) if found is not None else ()
