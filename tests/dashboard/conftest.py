"""A real server on a seeded store, and a browser that notes every complaint of its pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ratchet.server.serve import ServeSettings
from tests.dashboard.short import FORM, ROOT
from tests.serving import RunningServer

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of a demo's run, with live traffic and faults in its store."""
    if (form := request.config.stash.get(FORM, None)) is not None:
        return form.store()
    folder = tmp_path_factory.mktemp("dashboard") / "demo"
    # In a process of its own: where Playwright runs already, no other event loop may.
    filling = [sys.executable, "-m", "tests.dashboard.seeded", str(folder)]
    subprocess.run(filling, cwd=ROOT, check=True)
    return folder


def url_of(folder: Path) -> str:
    """URL of a project's store."""
    return f"sqlite:///{folder}/.ratchet/ratchet.db"


@pytest.fixture
def project(demo: Path, tmp_path: Path) -> Path:
    """A copy of the project, for a test that changes it."""
    copy = tmp_path / "demo"
    shutil.copytree(demo, copy, symlinks=True)
    return copy


@pytest.fixture
def serve() -> Iterator[Callable[..., RunningServer]]:
    """Starts servers of a project, and ends them with the test."""
    running: list[RunningServer] = []

    def start(
        folder: Path, *, environ: Mapping[str, str] | None = None, **settings: Any
    ) -> RunningServer:
        made = ServeSettings(**{"port": 0, "project": str(folder), **settings})
        running.append(RunningServer(url_of(folder), made, environ))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture(scope="session")
def reading(demo: Path) -> Iterator[RunningServer]:
    """A server for tests that change nothing."""
    server = RunningServer(url_of(demo), ServeSettings(port=0, project=str(demo)))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium."""
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright, chromium(playwright) as opened:
        yield opened


@contextmanager
def chromium(playwright: Any) -> Iterator[Any]:
    """The system's Chromium."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    assert path is not None, "make test-dashboard needs Chromium: apt-get install chromium"
    # A container's root has no sandbox of Chromium's; the pages are our own.
    opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_page(browser: Any) -> Iterator[Any]:
    """One page for many looks: what it has loaded it need not load again. Axe may be added."""
    context = browser.new_context(bypass_csp=True)
    yield watched(context.new_page())
    context.close()


class Complaints(list[str]):
    """What a page's console and scripts complained of."""


@pytest.fixture
def complaints() -> Complaints:
    """Errors of all pages of a test; a test that expects some clears them."""
    return Complaints()


@pytest.fixture
def opened(
    browser: Any, complaints: Complaints, serve: Callable[..., RunningServer]
) -> Iterator[Callable[..., Any]]:
    """Opens pages in a context of their own, closed before the test's servers are.

    The test fails when a page has complained.
    """
    contexts: list[Any] = []

    def open_page(url: str, *, context: Any = None, **options: Any) -> Any:
        if context is None:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
            contexts.append(context)
        page = watched(context.new_page())
        page.complaints = complaints
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def watched(page: Any) -> Any:
    """The page, which notes what its console and its scripts complain of in `complaints`."""
    page.complaints = Complaints()
    page.set_default_timeout(15_000)
    page.on("console", lambda m: page.complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    return page
