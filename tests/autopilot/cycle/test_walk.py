"""The walk over the table: a cycle that is killed at any boundary ends as one that is not."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests import interpreters
from tests.autopilot.cycle.scripted import SCENARIOS, Scenario, World, walk

from ratchet.store import Store
from ratchet.types import CYCLE_TRANSITIONS, Cycle

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))


def nothing(where: str) -> None:
    """No crash."""


def path_of(store: Store, cycle: Cycle) -> tuple[str, ...]:
    moves = store.cycles.transitions(cycle.id)
    assert [move.number for move in moves] == list(range(1, len(moves) + 1))
    assert all(a.target == b.source for a, b in pairwise(moves))
    return (moves[0].source, *(move.target for move in moves))


def effects(world: World) -> list[str]:
    return [each for each in world.read()["effects"] if not each.startswith("notify")]


def heard(world: World) -> Counter[str]:
    return Counter(each for each in world.read()["effects"] if each.startswith("notify"))


def test_the_scenarios_walk_the_whole_table() -> None:
    walked = {edge for scenario in SCENARIOS.values() for edge in pairwise(scenario.path)}
    table = {(source, to) for source, targets in CYCLE_TRANSITIONS.items() for to in targets}
    # These are the timeouts and stops of states whose other moves are walked.
    assert table - walked == set()
    assert walked - table == set()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cycle_goes_the_way_of_its_scenario(name: str, store: Store, tmp_path: Path) -> None:
    world = World(tmp_path / "world.json")
    cycle = walk(store, world, SCENARIOS[name], nothing)
    assert path_of(store, cycle) == SCENARIOS[name].path
    assert max(heard(world).values(), default=0) <= 1
    assert world.read()["share"] == 0.0
    assert store.cycles.underway("helper") is None


class _Snapshots:
    """Keeps what a kill would leave at each point: the files of the store and of the world."""

    def __init__(self, store: Path, world: World, folder: Path) -> None:
        self._store = store
        self._world = world
        self._folder = folder
        self.killed_at: dict[str, tuple[str, World]] = {}
        """The first snapshot of each point, or in the long form that of every pass."""

    def __call__(self, where: str) -> None:
        if where in self.killed_at and not LONG:
            return
        name = f"{where} ({len(self.killed_at)})" if where in self.killed_at else where
        folder = self._folder / str(len(self.killed_at))
        folder.mkdir(parents=True)
        for file in (*self._store.parent.glob(f"{self._store.name}*"), self._world.path):
            if file.exists():
                shutil.copy(file, folder)
        world = World(folder / self._world.path.name)
        self.killed_at[name] = f"sqlite:///{folder / self._store.name}", world


def test_a_cycle_that_is_killed_at_any_boundary_ends_as_one_that_is_not(
    sqlite_template: Path, tmp_path: Path
) -> None:
    """Before and after every move of the table and every action; in the long form, every write."""
    killed_at: set[str] = set()
    for number, scenario in enumerate(SCENARIOS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(sqlite_template, folder / "store.db")
        plain = World(folder / "world.json")
        snapshots = _Snapshots(folder / "store.db", plain, folder / "killed")
        with Store.open(f"sqlite:///{folder / 'store.db'}") as store:
            walk(store, plain, scenario, snapshots)
        for where, (url, world) in snapshots.killed_at.items():
            if where not in killed_at or LONG:
                killed_at.add(where)
                _check_end(scenario, where, url, world, plain)
    edges = {f"{source} to {to}" for source, targets in CYCLE_TRANSITIONS.items() for to in targets}
    assert {f"{when} {edge}" for edge in edges for when in ("before", "after")} <= killed_at


def _check_end(scenario: Scenario, where: str, url: str, world: World, plain: World) -> None:
    """Let a killed cycle go on, and compare its end with that of one that was not killed."""
    with Store.open(url) as store:
        cycle = walk(store, world, scenario, nothing)
        assert path_of(store, cycle) == scenario.path, where
        assert store.outbox.unfinished("helper") == [], where
        assert len(store.cycles.list()) == 1, where
    assert effects(world) == effects(plain), where
    # Told once; one whose sending was cut off may not have arrived, and is not sent again.
    assert max(heard(world).values(), default=0) <= 1, where
    assert (heard(plain) - heard(world)).total() <= 1, where


@pytest.mark.postgres
def test_kill_9_at_a_boundary_loses_nothing_and_repeats_nothing(
    postgres_url: str, tmp_path: Path
) -> None:
    """On SQLite, the test above goes on from what is on disk at every boundary."""
    name = "automatic"
    plain, world = World(tmp_path / "plain.json"), World(tmp_path / "world.json")
    with Store.open(f"sqlite:///{tmp_path}/plain.db") as store:
        walk(store, plain, SCENARIOS[name], nothing)
    # One life after another, each killed a little later after its start.
    command = [sys.executable, "-m", "tests.autopilot.cycle.scripted"]
    ends = []
    for number in range(3, 500, 2 if LONG else 25):
        ended = interpreters.run([*command, postgres_url, str(world.path), name, str(number)])
        ends.append(ended.returncode)
        if ended.returncode == 0:
            break
    assert ends[-1] == 0
    assert set(ends[:-1]) == {-signal.SIGKILL}
    with Store.open(postgres_url) as store:
        (cycle,) = store.cycles.list()
        assert path_of(store, cycle) == SCENARIOS[name].path
    assert effects(world) == effects(plain)
    assert max(heard(world).values()) == 1
