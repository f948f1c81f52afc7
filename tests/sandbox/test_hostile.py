"""Hostile programs are contained at every level, and the next evaluation works."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ratchet.sandbox.levels import why_no_bubblewrap, why_no_landlock
from tests.sandbox.hostile import PROGRAMS
from tests.sandbox.suite import attempt

OLDER = ("bubblewrap-0", "landlock-1") if os.environ.get("RATCHET_LONG_FAULTS") else ()
"""Levels with the Landlock of older kernels, 0 for none; `make faults` tries them."""

WITHOUT_CLOCKS = [name for name, p in PROGRAMS.items() if p.group not in ("limits", "answers")]
"""Programs whose containment depends on the kernel's rules."""

CASES = [
    *(("bubblewrap-99", name) for name in PROGRAMS),
    *(("landlock-99", name) for name in PROGRAMS),
    *((older, name) for older in OLDER for name in WITHOUT_CLOCKS),
]


def skip_where_absent(level: str) -> None:
    why = {"bubblewrap": why_no_bubblewrap, "landlock": why_no_landlock}[level]()
    if why:
        pytest.skip(f"no {level} on this machine: {why}")


@pytest.mark.parametrize(("how", "name"), CASES)
def test_a_hostile_program_is_contained(shared: Any, how: str, name: str) -> None:
    level, _, version = how.partition("-")
    skip_where_absent(level)
    around, warm, found = shared.get(level, int(version))
    outcome = shared.run(attempt(PROGRAMS[name], warm, around, found))
    if not outcome.contained:
        shared.forget(level, int(version))
    assert outcome.contained, outcome.why


@pytest.mark.parametrize(
    "name", [name for name, p in PROGRAMS.items() if p.group in ("limits", "answers")]
)
def test_limits_hold_without_a_sandbox_too(shared: Any, name: str) -> None:
    around, warm, found = shared.get("none", 0)
    outcome = shared.run(attempt(PROGRAMS[name], warm, around, found))
    if not outcome.contained:
        shared.forget("none", 0)
    assert outcome.contained, outcome.why


@pytest.mark.parametrize(
    "name",
    [
        "tcp",
        "unix_abstract",
        "unix_datagram",
        "home",
        "hidden_file",
        "hidden_folder",
        "secrets_by_name",
        "git_folder",
        "search",
        "files_outside",
        "symbolic_link",
        "kill_outside",
        "kill_parent",
        "from_memory",
    ],
)
def test_without_a_sandbox_the_same_program_does_its_harm(shared: Any, name: str) -> None:
    around, warm, found = shared.get("none", 0)
    outcome = shared.run(attempt(PROGRAMS[name], warm, around, found))
    shared.forget("none", 0)
    assert not outcome.contained


def test_the_table_is_long_enough_and_every_program_says_what_it_does() -> None:
    assert len(PROGRAMS) >= 40
    assert len({program.does for program in PROGRAMS.values()}) == len(PROGRAMS)
