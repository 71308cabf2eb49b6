"""A real browser and a real LaTeX, where there are any, and suites to report on."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from steelyard.records.suite import Suite, SuiteCell, SuiteManifest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")  # its event loop runs as long as it does, and no other may meanwhile
def browser() -> Iterator[Any]:
    """Chromium, headless; where STEELYARD_BROWSER_TESTS=required its absence is an error, elsewhere it skips."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        assert os.environ.get("STEELYARD_BROWSER_TESTS") != "required", "chromium is required here and not installed"
        pytest.skip("no chromium on this machine: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; fail on a script error and on a request for anything else."""
    contexts, complaints = [], []

    def opened(path: Path, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.on(
            "request",
            lambda request: None if request.url == path.as_uri() else complaints.append(f"asked for {request.url}"),
        )
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


AXES = ["model.preset", "training.micro_batch_size"]
PLATFORMS = {"fast": ("NVIDIA H200", "h200"), "slow": ("AMD Instinct MI300X", "mi300x")}


@pytest.fixture
def suites(recorded: Any) -> Callable[..., None]:
    """Two suites, fast and slow, of micro batches 4, 8 and 16 with three runs each; slow runs out of memory at 16."""

    def make(**different: Any) -> None:
        serial = count()
        for side, (gpu_name, gpu) in PLATFORMS.items():
            cells = []
            for batch in (4, 8, 16):
                for at, noise in enumerate((1.0, 1.006, 0.995)):
                    pace = noise * (0.8 + batch / 100 if side == "fast" else 1.0) * (1 + 1e-6 * next(serial))
                    run = recorded(to=f"{side}/mbs{batch}/repeat-{at}").slower(pace)
                    run.set("experiment/training/micro_batch_size", batch).set("experiment/training/seed", 41 + at)
                    run.set("experiment/training/global_batch_size", 16)
                    run.set("experiment/training/sequence_length", 1024)
                    run.set("experiment/training/gradient_accumulation_steps", 16 // batch)
                    run.set("platform/gpu_name", gpu_name).set("platform/gpu", gpu)
                    if side == "slow" and batch == 16:
                        run.set("status", "failed").set("failure", {"kind": "oom", "message": "out of memory"})
                    for key, value in different.items() if side == "slow" and batch == 8 else ():
                        run.set(key.replace("__", "/"), value)
                values = dict(zip(AXES, ("llama3.1-8b", batch), strict=True))
                memory = {"planned_gib": 150.0 + batch, "available_gib": 191.5}
                runs = [f"repeat-{at}" for at in range(3)]
                cells.append(SuiteCell(name=f"mbs{batch}", directory=f"mbs{batch}", values=values, runs=runs, **memory))
            Suite(Path("runs", side), SuiteManifest(name=side, axes=AXES, cells=cells)).save()

    return make


@pytest.fixture
def compiled() -> Callable[..., str]:
    """Compile a document with pdflatex, and return the text of its PDF; where `tidy`, no line is too long."""
    if shutil.which("pdflatex") is None:
        assert os.environ.get("STEELYARD_TEX_TESTS") != "required", "pdflatex is required here and not installed"
        pytest.skip("no pdflatex on this machine: apt-get install texlive-latex-recommended texlive-fonts-recommended")

    def compile_twice(path: Path, tidy: bool = False) -> str:
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", path.name]
        for _ in range(2):  # the second time with its references
            done = subprocess.run(command, cwd=path.parent, capture_output=True, check=False)
            log = done.stdout.decode(errors="replace")
            assert done.returncode == 0, log[-3000:]
        assert "undefined references" not in log
        assert not tidy or "Overfull" not in log, log
        return " ".join(page.extract_text() for page in PdfReader(path.with_suffix(".pdf")).pages)

    return compile_twice
