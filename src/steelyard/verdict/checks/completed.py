"""The run ended as planned: no failure text, and its last planned step was reached."""

from collections.abc import Iterator

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("completed", required=True)


def check(subject: Subject) -> Iterator[Found]:
    planned, last = subject.planned_steps, int(subject.steps.step.max()) if len(subject.steps) else 0
    reached, at = f"step {last}", subject.evidence_of_step(-1) or subject.evidence_of_manifest("status")
    expected = "unknown" if planned is None else f"step {planned}"
    failure = subject.run.manifest.failure
    cause = None if subject.outlived else subject.cause()
    if failure is not None:
        where = cause.source if cause and cause.source else subject.evidence_of_manifest("failure")
        yield CHECK.failed(f"the run failed: {failure.message}", reached, expected, where)
    elif cause is not None:
        yield CHECK.failed(f"the log says {cause.kind}: {cause.message}", reached, expected, cause.source)
    elif subject.run.status == "failed":
        yield CHECK.failed("the run failed and does not say why", reached, expected, at)
    elif subject.run.status != "interrupted" and subject.run.manifest.exit_status not in (0, None):
        status = subject.run.manifest.exit_status
        at = subject.evidence_of_manifest("exit_status")
        yield CHECK.failed(f"the training program ended with status {status}", reached, expected, at)
    elif subject.run.status == "running":
        yield CHECK.unknown(f"the run still runs, at step {last}", reached, expected, at)
    elif planned is None:
        foreign = subject.run.manifest.ingested is not None
        remedy = "; ingest it with --set training.steps=N" if foreign else ""
        yield CHECK.unknown(f"how many steps were planned is not known{remedy}", reached, expected, at)
    elif last < planned and subject.run.status == "completed" and planned < last + subject.log_interval:
        message = f"the run completed; its record, every {subject.log_interval} steps, can show none after step {last}"
        yield CHECK.passed(message, reached, expected, at)
    elif last < planned and (left := subject.events_of("exited_early")):
        yield CHECK.failed(
            f"it left at step {last} of {planned}: {left[-1].message}", reached, expected, left[-1].source
        )
    elif last < planned:
        word = "interrupted at" if subject.run.status == "interrupted" else "its record ends at"
        yield CHECK.failed(f"{word} step {last} of {planned}", reached, expected, at)
    else:
        again = ", after a restart" if subject.outlived else ""
        yield CHECK.passed(f"all {planned} planned steps were reached{again}", reached, expected, at)
