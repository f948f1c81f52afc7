"""The handbook's pictures of the page: python -m tests.dashboard.pictures [PROJECT]

They are written to docs/pictures, light, of a demo's run with live traffic. PROJECT is a folder
that `python -m tests.dashboard.seeded` has filled; without it, one is filled, in a minute.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright import sync_api

from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.dashboard.conftest import chromium, url_of
from tests.dashboard.short import ROOT
from tests.serving import RunningServer

PICTURES = ROOT / "docs" / "pictures"
LARGEST = 150_000
"""Bytes of a picture."""


def take(project: Path) -> None:
    """Write the pictures of a filled project."""
    with Store.open(url_of(project)) as store:
        problem = store.problems.list()[0]
        experiment = store.experiments.list(1)[0]
    shown = {
        "home": ("/", "Answers improved"),
        "problem": (f"/problems/{problem.id}", "Why it failed"),
        "experiment": (f"/experiments/{experiment.id}", "Before"),
    }
    PICTURES.mkdir(exist_ok=True)
    server = RunningServer(url_of(project), ServeSettings(port=0, project=str(project)))
    try:
        with sync_api.sync_playwright() as playwright, chromium(playwright) as browser:
            page = browser.new_page(
                viewport={"width": 1200, "height": 640},
                color_scheme="light",
                reduced_motion="reduce",
            )
            for name, (path, text) in shown.items():
                page.goto(f"{server.url}{path}")
                page.get_by_text(text).first.wait_for()
                page.evaluate("document.fonts.ready")
                picture = page.screenshot(path=PICTURES / f"{name}.png")
                assert len(picture) <= LARGEST, f"{name}.png has {len(picture)} bytes"
    finally:
        server.stop()


def main() -> None:
    """Take them."""
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "demo"
        filling = [sys.executable, "-m", "tests.dashboard.seeded", str(project)]
        subprocess.run(filling, cwd=ROOT, check=True)
        take(project)


if __name__ == "__main__":
    main()
