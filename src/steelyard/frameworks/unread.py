"""Frameworks whose logs are not read, by texts of their step lines: a refusal names them."""

import re

_TEXTS = {
    "Composer": rb"\[batch=\d+/\d+\]:",
    "OLMo": rb"\[step=\d+/\d+[,\]]|\btrain/CrossEntropyLoss=",
    "nanoGPT": rb"^(?:iter \d+: loss [\d.]+, time [\d.]+ms|step \d+: train loss [\d.]+, val loss [\d.]+)",
    "DeepSpeed without a framework": rb":log_dist\] \[Rank \d+\] step=\d+, skipped=\d+, lr=",
}
_PATTERNS = {name: re.compile(pattern, re.MULTILINE) for name, pattern in _TEXTS.items()}


def unread_framework(text: bytes) -> str | None:
    """The framework whose step lines a text contains; None if it is unknown."""
    return next((name for name, pattern in _PATTERNS.items() if pattern.search(text)), None)
