"""The type checker as a check: what it says, and when it says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.learn.checks import Copies, TypeChecks, annotations

from .conftest import change, code

MakeRepository = Callable[[dict[str, str]], Path]

OWN = "def f(x: int) -> int:\n    return x\n"
OTHER = "def f(x: int) -> int:\n    return str(x)\n"


def verdicts(root: Path, *sources: str) -> tuple[list[str], list[str]]:
    """What is said of changes of `f` in mod.py, and what is said once."""
    told: list[str] = []
    checks = TypeChecks(
        lambda candidate: {"mod.py": candidate.resources["f"].source.encode()},  # type: ignore[union-attr]
        Copies(root),
        told.append,
    )

    async def main() -> list[str]:
        return [await checks(change(code(OWN), code(source), "f")) for source in sources]

    return asyncio.run(main()), told


def test_what_mypy_finds_beside_a_candidate_alone_is_a_fault(repository: MakeRepository) -> None:
    root = repository({"mod.py": OWN, "mypy.ini": "[mypy]\nno_site_packages = true\n"})
    (wrong, fine), told = verdicts(root, OTHER, OWN.replace("return x", "return 2 * x"))
    assert "mypy finds errors in the code of f: Incompatible return value" in wrong
    assert fine == ""
    assert told == []


@pytest.mark.parametrize(
    ("seconds", "config", "said"),
    [
        (0.01, "[mypy]\n", "did not finish within 0.01 s"),
        (60.0, "[mypy]\nplugins = no.such\n", "no.such"),
    ],
)
def test_where_mypy_comes_to_no_end_nobody_is_refused_and_it_is_said_once(
    repository: MakeRepository,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    config: str,
    said: str,
) -> None:
    monkeypatch.setattr(annotations, "MYPY_TIMEOUT_S", seconds)
    root = repository({"mod.py": OWN, "mypy.ini": config})
    found, told = verdicts(root, OTHER, OTHER.replace("str(x)", "None"))
    assert found == ["", ""]
    assert len(told) == 1
    assert said in told[0]
