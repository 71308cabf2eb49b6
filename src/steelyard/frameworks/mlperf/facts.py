"""Facts about MLPerf Training logs, which can be read but not planned."""

from steelyard.frameworks.facts import Facts

FACTS = Facts(
    name="mlperf",
    any_loss=True,  # language models, fine-tuning, recommendation, images
    end_marker=rb'"key": "run_stop"',
    announces_end=True,  # a run ends when it reaches its quality, not after a number of steps
)
