"""The wheel holds the built page."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]


def test_the_built_page_is_in_the_wheel(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "RATCHET_SKIP_DASHBOARD"}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(
        build, cwd=ROOT / "tool", env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        page = [each for each in wheel.infolist() if "/server/static/" in each.filename]
    names = [each.filename.removeprefix("ratchet/server/static/") for each in page]
    assert {"index.html", "theme.js", "icon.svg"} <= set(names)
    assert [name for name in names if name.startswith("assets/") and name.endswith(".js")]
    assert sum(each.compress_size for each in page) <= 1.5 * 1024 * 1024
