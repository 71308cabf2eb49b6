"""The training program runs what the plan told it: what its own log says of its settings is the plan's."""

from steelyard.reasons import Code
from steelyard.verdict.checks import batch_identity, world_identity
from steelyard.verdict.finding import Check, Results, Status
from steelyard.verdict.subject import Subject

CHECK = Check("plan_identity")
SETTINGS_AS_PLANNED = Code(
    "settings_as_planned",
    lambda observed, **_: (
        f"{'1 setting the log says is' if observed == 1 else f'{observed} settings the log says are'} the plan's"
    ),
)
"""Every setting in the log has the value of the plan."""
SETTINGS_NOT_LOGGED = Code("settings_not_logged", "the log says nothing of its settings")
"""The log contains no settings to compare with the plan."""
IMPORTED_FROM_LOG = Code("imported_from_log", "it is read from a log, whose own settings are in force")
"""The run was imported from a log, so there is no plan to compare its settings with."""
_ELSEWHERE = {*batch_identity.KEYS, *world_identity.KEYS}
_ASIDE = ("data.", "training.checkpointing", "training.tracking", "training.steps")
"""A path may be spelt in two ways, a total be an epoch's: what the log says of these proves no other run."""


def check(subject: Subject) -> Results:
    differing = {key for event in subject.events_of("plan_differs") if (key := event.text("key")) is not None}
    keys = differing - _ELSEWHERE
    aside = {key for key in keys if key.startswith(_ASIDE)}
    settings = subject.events_of("settings")
    if subject.foreign:
        yield CHECK.not_applicable(IMPORTED_FROM_LOG)
    elif denied := subject.denied(*(keys - aside)):
        yield CHECK.contradicted(denied)
    elif aside:
        yield CHECK.contradicted(subject.denied(*aside), Status.UNKNOWN)
    elif settings:
        yield CHECK.passed(SETTINGS_AS_PLANNED, max(event.whole("held") or 0 for event in settings) - len(differing))
    else:
        yield CHECK.unknown(SETTINGS_NOT_LOGGED)
