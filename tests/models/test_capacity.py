"""How much of the machine a model takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ratchet.models.capacity import Capacity, choose_capacity, usable_cores
from ratchet.models.memory import bytes_needed

QWEN: dict[str, Any] = {
    "file_bytes": 1_117_320_768,
    "cache_bytes_per_token": 28_672,
    "trained_context": 32_768,
}


def chosen(**options: Any) -> Capacity:
    return choose_capacity(**{**QWEN, "cores": 2, "available": 20_000_000_000, **options})


def test_where_memory_is_plenty_it_has_four_slots_with_a_long_context() -> None:
    assert chosen() == Capacity(slots=4, context=8192, threads=2)
    assert str(chosen()) == "4 conversations at once, each of at most 8192 tokens, on 2 threads"
    half = bytes_needed(QWEN["file_bytes"], QWEN["cache_bytes_per_token"], 4 * 8192)
    assert chosen(available=2 * half).context == 8192
    assert chosen(available=2 * half - 1) == Capacity(slots=4, context=4096, threads=2)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 2), (3, 2), (4, 2), (8, 4), (64, 32)])
def test_of_many_cores_half_are_left_to_the_agent(cores: int, threads: int) -> None:
    assert chosen(cores=cores).threads == threads


@pytest.mark.parametrize(
    ("tokens", "slots", "context"),
    [(16_384, 4, 4096), (16_383, 3, 4096), (8200, 2, 4096), (4000, 1, 3840), (1024, 1, 1024)],
)
def test_scarce_memory_takes_slots_first_and_then_context(
    tokens: int, slots: int, context: int
) -> None:
    available = bytes_needed(QWEN["file_bytes"], QWEN["cache_bytes_per_token"], tokens)
    assert chosen(available=available) == Capacity(slots=slots, context=context, threads=2)


def machine(folder: Path, quota: str, siblings: dict[int, str]) -> dict[str, Path]:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text("0::/a\n")
    (folder / "cgroup/a").mkdir(parents=True)
    (folder / "cgroup/a/cpu.max").write_text(quota)
    for number, text in siblings.items():
        topology = folder / f"cpus/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{text}\n")
    return {name: folder / name for name in ("proc", "cgroup", "cpus")}


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1)]
)
def test_cores_are_counted_without_their_second_threads_and_within_the_quota(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    folders = machine(tmp_path, quota, {n: f"{n % 4},{n % 4 + 4}" for n in range(8)})
    assert usable_cores(**folders) == cores
