"""Make the pictures of docs/how-to/report.md: `python docs/images/make.py`. Requires chromium."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
DESK, PHONE = {"width": 1280, "height": 1200}, {"width": 390, "height": 844}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main() -> None:
    chromium = shutil.which("chromium") or sys.exit("chromium not found; next: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        demo = subprocess.run(
            [sys.executable, "-m", "steelyard", "demo", "--recorded", "--json"],
            cwd=temporary,
            capture_output=True,
            check=True,
        )
        story = json.loads(demo.stdout)
        observed, refused = (Path(place) / "report.html" for place in story["comparisons"])
        run = Path(story["runs"][0]) / "report.html"
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, page, scheme, size in (
            ("run-desktop-light", run, "light", DESK),
            ("run-phone-dark", run, "dark", PHONE),
            ("comparison-desktop-dark", observed, "dark", DESK),
            ("comparison-phone-light", refused, "light", PHONE),
        ):
            context = browser.new_context(viewport=size, color_scheme=scheme)
            opened = context.new_page()
            opened.goto(page.as_uri())
            if page is run and size is DESK:
                opened.locator(".plot").first.hover(position={"x": 330, "y": 90})
            opened.screenshot(path=HERE / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
