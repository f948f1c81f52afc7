"""The npm package: its own tests, what is published, and what it must share with Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ratchet
from ratchet.types import TrafficSplit, arm_of
from tests.javascript.built import JAVASCRIPT, run
from tests.node_packages import node

pytestmark = pytest.mark.xdist_group("node")


@pytest.mark.long
def test_its_tests_pass_under_nodes_runner(package: Path) -> None:
    tests = sorted(str(path) for path in (package / "test").glob("*.test.mjs"))
    done = run([node(), "--test", *tests], package)
    assert done.returncode == 0, done.stdout[-8_000:]
    assert int(re.findall(r"^# pass (\d+)$", done.stdout, re.M)[0]) > 90


def test_units_get_the_same_arm_in_both_languages() -> None:
    vectors = json.loads((JAVASCRIPT / "test" / "arms.json").read_text())
    given = 0
    for vector in vectors:
        split = TrafficSplit(
            agent="a",
            experiment_id=vector["experiment_id"],
            candidate_id="c",
            enrolled=vector["enrolled"],
        )
        for unit, arm in vector["arms"].items():
            assert arm_of(split, unit) == arm, unit
            given += arm is not None
    assert given > 50


def test_its_version_is_ratchets() -> None:
    assert json.loads((JAVASCRIPT / "package.json").read_text())["version"] == ratchet.__version__


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((JAVASCRIPT / "package-lock.json").read_text())
    assert not [name for name, found in lock["packages"].items() if "resolved" in found]


def test_it_needs_nothing_but_opentelemetry_at_run_time() -> None:
    declared = json.loads((JAVASCRIPT / "package.json").read_text())
    needed = {**declared["dependencies"], **declared["peerDependencies"]}
    assert all(name.startswith("@opentelemetry/") for name in needed)
    source = "".join(path.read_text() for path in (JAVASCRIPT / "src").glob("*.ts"))
    imported = set(re.findall(r'^[^*\n]*from "([^."][^"]*)"', source, re.M))
    assert {name for name in imported if not name.startswith("node:")} == set(needed)


def test_what_is_published_is_the_build_and_its_types(package: Path) -> None:
    done = run(["npm", "pack", "--dry-run", "--json"], package)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    names = {each["path"] for each in found["files"]}
    fixed = {"package.json", "README.md", "LICENSE", "dist/index.mjs", "dist/index.d.mts"}
    modules = {path.stem for path in (JAVASCRIPT / "src").glob("*.ts")}
    made = {f"dist/{name}{ending}" for name in modules for ending in (".js", ".d.ts")}
    assert names == fixed | made


@pytest.mark.long
def test_tools_for_published_packages_find_no_fault(package: Path) -> None:
    done = run(["npm", "run", "check"], package)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_types_hold_what_its_users_write(package: Path) -> None:
    options = [
        "--ignoreConfig",
        "--strict",
        "--noEmit",
        "--module",
        "node16",
        "--target",
        "es2022",
        "--types",
        "node",
    ]
    compiler = package.parent / "node_modules" / "typescript" / "bin" / "tsc"
    files = ["used.mts", "used.cts", "types.mts"]
    done = run([node(), str(compiler), *options, *files], package / "test")
    assert done.returncode == 0, done.stdout
