"""steelyard data fingerprint PATH...: what a corpus or a tokenizer contains, as one hash."""

from dataclasses import dataclass
from pathlib import Path

import typer

from steelyard.cli import printing
from steelyard.cli.options import Printing, argument, examples, help_unless_asked
from steelyard.cli.verb import verb

app = typer.Typer(help="Fingerprints of corpora and tokenizers.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    help_unless_asked(context)


@dataclass(frozen=True, kw_only=True)
class FingerprintOptions(Printing):
    paths: list[Path] = argument("PATH", "Files or directories of one corpus or tokenizer, in order.")


@app.command("fingerprint", epilog=examples("steelyard data fingerprint /data/c4_text_document"))
@verb
def fingerprint(options: FingerprintOptions) -> None:
    """Print one hash of the content of files, which copies under other paths share.

    Token ids (.npy, or Megatron's .bin with .idx) have equal hashes in both formats. Links are not followed.
    """
    from steelyard.data.fingerprint import TOKENS
    from steelyard.data.fingerprint import fingerprint as hash_of

    made = hash_of(options.paths)
    keys = ("data.fingerprint", "data.tokenizer_fingerprint")
    declare = [f"--set {key}={made.text}" for key in (keys[:1] if made.kind == TOKENS else keys)]
    if options.as_json:
        kind = "tokens" if made.kind == TOKENS else "files"
        content = {"fingerprint": made.text, "kind": kind, "files": made.files, "bytes": made.size}
        printing.show_json({**content, "declare": declare})
        return
    printing.say(made.text)
    what = "token ids of" if made.kind == TOKENS else "content of"
    printing.item("  ", f"{what} {made.files:,} file{'s' * (made.files != 1)}, {made.size:,} bytes")
    printing.item("  ", f"next: give {' or '.join(declare)} to run, plan or ingest on both sides")
