"""The training program runs what the plan told it: what its own log says of its settings is the plan's."""

from collections.abc import Iterator

from steelyard.verdict.checks import batch_identity, world_identity
from steelyard.verdict.finding import Check, Found, Status
from steelyard.verdict.subject import Subject

CHECK = Check("plan_identity")
_ELSEWHERE = {*batch_identity.KEYS, *world_identity.KEYS}
_ASIDE = ("data.", "training.checkpointing", "training.tracking", "training.steps")
"""A path may be spelt in two ways, a total be an epoch's: what the log says of these proves no other run."""


def check(subject: Subject) -> Iterator[Found]:
    if subject.run.manifest.ingested is not None:
        yield CHECK.not_applicable("it is read from a log, whose own settings are in force")
        return
    differing = {key for event in subject.events_of("plan_differs") if (key := event.text("key")) is not None}
    keys = differing - _ELSEWHERE
    aside = {key for key in keys if key.startswith(_ASIDE)}
    said = subject.events_of("settings")
    if denied := subject.denied(*(keys - aside)):
        yield CHECK.contradicted(denied)
    elif aside:
        yield CHECK.contradicted(subject.denied(*aside), Status.UNKNOWN)
    elif said:
        held = max(event.whole("held") or 0 for event in said) - len(differing)
        words = "1 setting the log says is" if held == 1 else f"{held} settings the log says are"
        yield CHECK.passed(f"{words} the plan's", held)
    else:
        yield CHECK.unknown("the log says nothing of its settings")
