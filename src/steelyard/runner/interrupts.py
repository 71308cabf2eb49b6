"""Ctrl-C, a kill and a closed terminal end a run in the same orderly way."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def on_signals(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` instead of what these signals would do."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
