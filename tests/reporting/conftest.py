"""A real browser, where there is one."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
