"""The run ended as planned: no failure, and the last planned step was reached."""

from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("completed", required=True)
ALL_STEPS_REACHED = Code(
    "all_steps_reached",
    lambda planned, restarted, **_: f"all {planned:,} planned steps done{', after a restart' if restarted else ''}",
)
"""The run reached its last planned step."""
COMPLETED_BETWEEN_RECORDS = Code(
    "completed_between_records",
    "run completed; last record is step {step:,} (one record every {interval} steps)",
)
"""The run completed, and its last steps fall between two records because the log interval is longer than one step."""
END_MARKER_LOGGED = Code("end_marker_logged", "end marker of the program in the log, after step {step:,}")
"""The program printed its end marker; the planned number of steps is unknown."""
RUN_FAILED = Code(
    "run_failed",
    lambda failure, step, planned, **_: (
        f"run failed{'' if planned is None else f' at step {step:,} of {planned:,}'}: {failure}"
    ),
)
"""The run is recorded as failed, with the reason that was recorded."""
FAILED_WITHOUT_REASON = Code("failed_without_reason", "run failed, no reason recorded; see the logs of the run")
"""The run is recorded as failed, and no reason was recorded."""
FAILURE_IN_LOG = Code("failure_in_log", "{kind} in the log: {text}")
"""The log contains the text of a fatal error."""
NONZERO_EXIT = Code("nonzero_exit", "training program exited with status {exit_status}; see the logs of the run")
"""The training program exited with a status other than 0."""
EXITED_EARLY = Code("exited_early", "training program stopped at step {step:,} of {planned:,}: {text}")
"""The log shows that the training program stopped on purpose before its last planned step."""
DATA_ENDED = Code(
    "data_ended", "program stopped at step {step:,} of {planned:,} because it had used all its data; was that the plan?"
)
"""The program stopped before its last planned step because it had used all its data, which may be the plan."""
ENDED_BEFORE_LAST_STEP = Code(
    "ended_before_last_step",
    "end marker of the program after step {step:,} of {planned:,}, no reason recorded; if that was the plan, "
    "ingest with --set training.steps={step} --override",
)
"""The program printed its end marker before its last planned step, as it does at a limit of tokens."""
RUN_INTERRUPTED = Code(
    "run_interrupted",
    lambda step, planned, foreign, **_: f"{'log ends' if foreign else 'interrupted'} at step {step:,} of {planned:,}",
)
"""The run was interrupted before its last planned step."""
RECORD_ENDS_EARLY = Code("record_ends_early", "ends at step {step:,} of {planned:,}, no reason recorded")
"""The record stops before the last planned step, and no reason was recorded."""
STILL_RUNNING = Code("still_running", "still running at step {step:,}; check again after it ends")
"""The run has not ended yet."""
ENDED_WITHOUT_EVIDENCE = Code(
    "ended_without_evidence",
    "log ends at step {step:,} without an end marker, and the planned number of steps is unknown; "
    "ingest with --set training.steps=N",
)
"""The log has no end marker and does not contain the planned number of steps; set training.steps."""
PLANNED_STEPS_UNKNOWN = Code(
    "planned_steps_unknown",
    lambda foreign, **_: f"planned number of steps unknown{'; ingest with --set training.steps=N' if foreign else ''}",
)
"""The planned number of steps is unknown, so completion cannot be judged; set training.steps."""


def check(subject: Subject) -> Results:
    planned, last = subject.whole("training.steps"), int(subject.steps.step.max()) if len(subject.steps) else 0
    reached, at = f"step {last}", subject.evidence_of_step(-1) or subject.evidence_of_manifest("status")
    expected = "unknown" if planned is None else f"step {planned}"
    status, failure, exit_status = subject.run.status, subject.run.manifest.failure, subject.run.manifest.exit_status
    cause = subject.failures.cause
    if failure is not None:
        where = cause.source if cause and cause.source else subject.evidence_of_manifest("failure")
        values = {"failure": failure.message, "step": last, "planned": planned}
        yield CHECK.failed(RUN_FAILED, reached, expected, where, **values)
    elif cause is not None:
        yield CHECK.failed(FAILURE_IN_LOG, reached, expected, cause.source, kind=cause.kind, text=cause.message)
    elif status == "failed":
        yield CHECK.failed(FAILED_WITHOUT_REASON, reached, expected, at)
    elif status != "interrupted" and exit_status not in (0, None):
        at = subject.evidence_of_manifest("exit_status")
        yield CHECK.failed(NONZERO_EXIT, reached, expected, at, exit_status=exit_status)
    elif status == "running":
        yield CHECK.unknown(STILL_RUNNING, reached, expected, at, step=last)
    elif planned is None and status == "ended":
        yield CHECK.unknown(ENDED_WITHOUT_EVIDENCE, reached, expected, at, step=last)
    elif planned is None and subject.foreign and subject.events_of("finished"):
        yield CHECK.passed(END_MARKER_LOGGED, reached, expected, subject.events_of("finished")[-1].source, step=last)
    elif planned is None:
        yield CHECK.unknown(PLANNED_STEPS_UNKNOWN, reached, expected, at, foreign=subject.foreign)
    elif last < planned and status == "completed" and planned < last + subject.log_interval:
        yield CHECK.passed(COMPLETED_BETWEEN_RECORDS, reached, expected, at, interval=subject.log_interval, step=last)
    elif last < planned and (ends := subject.events_of("data_ended")):
        yield CHECK.unknown(DATA_ENDED, reached, expected, ends[-1].source, step=last, planned=planned)
    elif last < planned and (exits := subject.events_of("exited_early")):
        values = {"step": last, "planned": planned, "text": exits[-1].message}
        yield CHECK.failed(EXITED_EARLY, reached, expected, exits[-1].source, **values)
    elif last < planned and subject.foreign and status == "completed" and (ends := subject.events_of("finished")):
        yield CHECK.unknown(ENDED_BEFORE_LAST_STEP, reached, expected, ends[-1].source, step=last, planned=planned)
    elif last < planned:
        code = RUN_INTERRUPTED if status == "interrupted" else RECORD_ENDS_EARLY
        yield CHECK.failed(code, reached, expected, at, step=last, planned=planned, foreign=subject.foreign)
    else:
        yield CHECK.passed(ALL_STEPS_REACHED, reached, expected, at, planned=planned, restarted=subject.restarted)
