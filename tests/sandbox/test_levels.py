"""Which sandbox is chosen, and what is said where there is none."""

from __future__ import annotations

import pytest

from ratchet.sandbox import SandboxPool, SandboxUnavailable, best_level, bubblewrap, levels
from ratchet.sandbox.inside import landlock, seccomp


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with neither bubblewrap nor Landlock."""
    for cached in (levels.why_no_bubblewrap, levels.why_no_landlock):
        monkeypatch.setattr(levels, cached.__name__, cached.__wrapped__)
    monkeypatch.setattr(bubblewrap, "program", lambda: None)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    return monkeypatch


def test_without_any_sandbox_the_code_is_refused_with_what_to_do(
    bare_machine: pytest.MonkeyPatch,
) -> None:
    assert best_level() == "none"
    with pytest.raises(SandboxUnavailable, match="this machine has none") as caught:
        SandboxPool("module:function")
    said = str(caught.value)
    assert "bwrap is not installed" in said
    assert "the kernel has no Landlock" in said
    assert "Install bubblewrap" in said
    assert SandboxPool("module:function", unsafe=True).level == "none"


def test_landlock_is_taken_where_bubblewrap_is_absent(bare_machine: pytest.MonkeyPatch) -> None:
    bare_machine.setattr(landlock, "version", lambda: 3)
    bare_machine.setattr(seccomp, "available", lambda: True)
    assert best_level() == "landlock"
    with pytest.raises(
        SandboxUnavailable,
        match="bubblewrap sandbox is not available on this machine: bwrap is not inst",
    ):
        SandboxPool("module:function", level="bubblewrap")
    bare_machine.setattr(seccomp, "available", lambda: False)
    assert best_level() == "none"


def test_a_bubblewrap_that_may_not_make_namespaces_is_not_taken(
    bare_machine: pytest.MonkeyPatch,
) -> None:
    bare_machine.setattr(bubblewrap, "program", lambda: "/bin/false")
    bare_machine.setattr(seccomp, "available", lambda: True)
    assert levels.why_no_bubblewrap() == "bwrap ended with exit code 1"


def test_no_sandbox_has_to_be_asked_for_twice() -> None:
    with pytest.raises(SandboxUnavailable, match="'none' means no sandbox"):
        SandboxPool("module:function", level="none")
    assert SandboxPool("module:function", level="none", unsafe=True).level == "none"


def test_unsafe_does_not_weaken_what_can_be_had() -> None:
    assert levels.resolve_level("auto", unsafe=True) == best_level()
