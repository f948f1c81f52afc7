"""A store of another version: an older one is upgraded and shown, another refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.app import run
from ratchet.store import Store, schema
from tests.dashboard.conftest import url_of
from tests.serving import RunningServer
from tests.store.later_schema import become_later, stamp

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def version_of(folder: Path) -> str | None:
    """Schema version of a project's store."""
    return schema._read_sqlite(url_of(folder).removeprefix("sqlite:///"))


def test_a_store_of_an_older_version_is_upgraded_and_shown(
    opened: Callable[..., Any],
    serve: Callable[..., RunningServer],
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert version_of(project) == schema.VERSIONS[-1]
    become_later(monkeypatch, tmp_path)
    server = serve(project)
    assert version_of(project) == "2"
    page = opened(server.url)
    page.get_by_text("Why it was shipped").wait_for()
    page.goto(f"{server.url}/traces")
    page.get_by_role("table", name="Traces").locator("tbody tr").nth(80).wait_for()
    page.get_by_role("table", name="Traces").get_by_role("link").first.click()
    page.locator("[role=treeitem]").first.wait_for()
    page.goto(f"{server.url}/runs")
    page.get_by_role("table", name="Runs").get_by_role("link").first.click()
    page.get_by_role("heading", name="Candidates").wait_for()
    page.get_by_role("table", name="Candidates").get_by_text("chosen").wait_for()


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("2", "Upgrade Ratchet"),
        (schema.DEVELOPMENT[-1], "was made by a development version of Ratchet"),
    ],
)
def test_a_store_of_a_newer_or_a_development_version_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, sentence: str
) -> None:
    (tmp_path / ".ratchet").mkdir()
    Store.open(url_of(tmp_path)).close()
    stamp(url_of(tmp_path), version)
    before = (tmp_path / ".ratchet" / "ratchet.db").read_bytes()
    assert run(["serve", "-C", str(tmp_path), "--store", url_of(tmp_path), "--port", "0"]) != 0
    told = " ".join(capsys.readouterr().err.split())
    assert sentence in told
    assert "Traceback" not in told
    assert (tmp_path / ".ratchet" / "ratchet.db").read_bytes() == before
