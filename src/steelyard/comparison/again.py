"""Commands that make a run of a comparison again."""

import shlex
from collections.abc import Collection, Iterator, Sequence

from steelyard.records.manifest import RunManifest

_DROPPED_FLAGS = ("--no-check", "--json", "--follow")
_DROPPED_OPTIONS = ("--name", "--repeats", "--seeds")
LONGEST = 160
"""Characters of a command of a run that is printed again."""


def import_again(manifest: RunManifest) -> str:
    """The command that imported a run, without its name."""
    words, made = manifest.provenance.command, manifest.ingested
    if words[:2] == ["steelyard", "ingest"]:
        command = shlex.join(_kept(words))
        if len(command) <= LONGEST and command.isprintable():
            return command
    return f"steelyard ingest {shlex.quote(made.files[0].path) if made and made.files else 'LOG'}"


def import_new(manifest: RunManifest, log: str, name: str) -> str:
    """The command that imports another log as the run was imported, under another name."""
    words, made = manifest.provenance.command, manifest.ingested
    files = {file.path for file in made.files} if made else set()
    if words[:2] == ["steelyard", "ingest"] and len(files) == 1:
        kept = [log if word in files else word for word in _kept(words)]
        command = shlex.join([*kept, "--name", name])
        if log in kept and command.isprintable():
            return command
    return f"steelyard ingest {log} --config FILE --name {name}"


def run_again(manifest: RunManifest, *options: str) -> str | None:
    """The command that made a run, without its name and with other options; None for imported runs."""
    if manifest.ingested is not None or manifest.provenance.file is None:
        return None
    command = shlex.join([*_command(manifest, options), *options])
    return command if len(command) <= LONGEST and command.isprintable() else None


def _command(manifest: RunManifest, options: Sequence[str]) -> Iterator[str]:
    """The words of a `steelyard run`; other commands are replaced by one with the experiment file."""
    words = manifest.provenance.command
    if len(words) < 3 or words[1] != "run":
        words = ["steelyard", "run", manifest.provenance.file or "FILE"]
    yield from _kept(words, {option.partition("=")[0] for option in options if "=" in option})


def _kept(words: Sequence[str], replaced: Collection[str] = ()) -> Iterator[str]:
    """A command without its name and its number of runs, and without the settings that are replaced."""
    yield from ("steelyard", words[1])
    rest = iter(words[2:])
    for word in rest:
        name, _, value = word.partition("=")
        if name in _DROPPED_OPTIONS:
            if not value:
                next(rest, None)
        elif word == "--set":
            setting = next(rest, "")
            if setting.partition("=")[0] not in replaced:
                yield from (word, setting)
        elif name not in _DROPPED_FLAGS:
            yield word
