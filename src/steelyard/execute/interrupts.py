"""Ctrl-C, a kill and a closed terminal end a run in the same orderly way; a second one ends it at once."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Stop:
    """What was asked for while a run was under way."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """The first signal: end the job, clean up, keep the record."""
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """The second: leave everything as it is, and say what remains."""


@contextlib.contextmanager
def on_signals() -> Iterator[Stop]:
    """Inside the with, these signals only set the events."""
    stop, loop = Stop(), asyncio.get_running_loop()

    def act() -> None:
        (stop.at_once if stop.asked.is_set() else stop.asked).set()

    for number in SIGNALS:
        loop.add_signal_handler(number, act)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
