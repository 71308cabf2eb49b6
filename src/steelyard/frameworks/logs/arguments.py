"""Arguments of a dump that determine no key of ours: kept, so that a comparison can name those that differ."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from steelyard.frameworks.logs.settings import ARGUMENTS, Setting
from steelyard.records.step import Evidence
from steelyard.secrets import redacted, secret_kind

_MOST, _LONGEST = 2000, 200
"""Arguments of a dump (Megatron's has about 830), and characters of a value."""
_FREE = re.compile(
    r"(?:\w+\.)*"
    r"(?:_?(?:rank|local_rank|iteration|consumed_\w+|skipped_train_samples|encoder_(?:num_layers|seq_length))"
    r"|(?:wandb|tensorboard|log|logging|one_logger|enable_one_logger|flight_recorder|straggler|timing|app_tag|exit"
    r"|profile|profiler|monitor|launcher|master|hostfile|user_script|comet|mlflow)(?:_\w+)?"
    r"|(?:\w+_)?(?:port|directory|folder|rank|ranks|dir|addr|addrs|hosts|run_name|exp_name|log_path|cache_path)"
    r"|\w+_timeout_minutes)"
)
"""Names of logs, ports, hosts, ranks, output directories and timers, which change neither speed nor loss, and copies of
other arguments."""


class UnreadArguments:
    """Collects arguments of one dump, bounded and without secrets."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        if len(self._values) < _MOST and not _FREE.fullmatch(name) and secret_kind(name, text) is None:
            self._values.setdefault(name, redacted(text)[:_LONGEST])

    def add_nested(self, values: Mapping[str, Any], prefix: str = "") -> None:
        """Values of a configuration in sections, under dotted names."""
        for name, value in values.items():
            if isinstance(value, Mapping):
                self.add_nested(value, f"{prefix}{name}.")
            else:
                self.add(f"{prefix}{name}", str(value))

    def setting(self, governed: Iterable[str], source: Evidence) -> Iterator[Setting]:
        """The arguments at the end of the dump, without those that determine a key after all."""
        values, self._values = self._values, {}
        for name in governed:
            values.pop(name, None)
        if values:
            yield Setting(ARGUMENTS, values, source)
