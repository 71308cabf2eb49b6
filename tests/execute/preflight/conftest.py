"""Hosts that are this machine with something else in its place: tools, paths, limits."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from steelyard.execute.host import COMMAND_S, Done, HostTimeoutError, LinkLostError, ThisHost
from steelyard.execute.preflight.probe import Section, Sections

OUTPUTS = Path(__file__).parent / "outputs"


class AlteredHost(ThisHost):
    """This machine under another name, with tools ahead of its own, a wrapper, or paths that lie elsewhere."""

    def __init__(
        self,
        name: str,
        tools: Path | None = None,
        wrapper: Sequence[str] = (),
        paths: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name)
        self._tools, self._wrapper, self._paths = tools, wrapper, paths or {}

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        words = [self._paths.get(word, word) for word in argv]
        first = ["env", f"PATH={self._tools}:/usr/bin:/bin"] if self._tools else []
        return await super().run([*first, *self._wrapper, *words], stdin, timeout_s)


class LostHost(ThisHost):
    """A host that nobody reaches."""

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        raise LinkLostError(self.name, "no answer within 15 s")


class SlowHost(ThisHost):
    """A host that is there and never done."""

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        if argv[0] == "sh":
            raise HostTimeoutError(self.name, f"sh took longer than {timeout_s:g} s")
        return await super().run(argv, stdin, timeout_s)


@pytest.fixture
def tools(tmp_path: Path) -> Callable[..., Path]:
    """Make a directory of programs: each prints a text, or is a script of its own where it begins with `#!`."""

    def make(name: str = "tools", **programs: str) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        for program, text in programs.items():
            path = directory / program.replace("_", "-", 1) if program != "all_reduce_perf" else directory / program
            if not text.startswith("#!"):
                (directory / f"{program}.out").write_text(text)
                text = f"#!/bin/sh\ncat '{directory / f'{program}.out'}'\n"
            path.write_text(text)
            path.chmod(0o755)
        return directory

    return make


@pytest.fixture
def recorded() -> Callable[..., Sections]:
    """Sections whose tools answered with recorded outputs, by section and file."""

    def read(**files: str) -> Sections:
        return Sections(
            {name: Section(0, tuple((OUTPUTS / file).read_text().splitlines())) for name, file in files.items()}
        )

    return read
