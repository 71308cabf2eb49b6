"""The settings in the log equal those of the plan."""

from steelyard.reasons import Code
from steelyard.verdict.checks import batch_identity, world_identity
from steelyard.verdict.finding import Check, Results, Status
from steelyard.verdict.subject import Subject

CHECK = Check("plan_identity")
SETTINGS_AS_PLANNED = Code(
    "settings_as_planned",
    lambda observed, **_: (
        f"{'1 logged setting matches' if observed == 1 else f'{observed} logged settings match'} the plan"
    ),
)
"""Every setting in the log has the value of the plan."""
SETTINGS_NOT_LOGGED = Code("settings_not_logged", "no settings in the log")
"""The log contains no settings to compare with the plan."""
IMPORTED_FROM_LOG = Code("imported_from_log", "imported run: no plan to compare with")
"""The run was imported from a log, which has no plan to compare with."""
_CHECKED_ELSEWHERE = {*batch_identity.KEYS, *world_identity.KEYS}
_INCONCLUSIVE = ("data.", "training.checkpointing", "training.tracking", "training.steps")
"""A difference here is unknown, not a failure: one path has several spellings, and a total may count one epoch."""


def check(subject: Subject) -> Results:
    differing = {key for event in subject.events_of("plan_differs") if (key := event.text("key")) is not None}
    keys = differing - _CHECKED_ELSEWHERE
    inconclusive = {key for key in keys if key.startswith(_INCONCLUSIVE)}
    settings = subject.events_of("settings")
    if subject.foreign:
        yield CHECK.not_applicable(IMPORTED_FROM_LOG)
    elif contradictions := subject.contradictions(*(keys - inconclusive)):
        yield CHECK.contradicted(contradictions)
    elif inconclusive:
        yield CHECK.contradicted(subject.contradictions(*inconclusive), Status.UNKNOWN)
    elif settings:
        yield CHECK.passed(SETTINGS_AS_PLANNED, max(event.whole("held") or 0 for event in settings) - len(differing))
    else:
        yield CHECK.unknown(SETTINGS_NOT_LOGGED)
