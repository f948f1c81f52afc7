"""[sandbox] and [checks] of `ratchet.toml`: how code candidates are contained, and checked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet.autopilot.sections import Positive, Section, Several

Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-]+:\d{1,5}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class SandboxSection(Section):
    """[sandbox]: where candidates of code run."""

    level: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    memory_mb: Annotated[int, Field(ge=64)] = 512
    seconds: Positive | None = None
    slots: Annotated[int, Field(ge=1, le=256)] | None = None
    connect: Several[Address] = ()
    environment: Several[Variable] = ()
    read: Several[str] = ()
    hide: Several[str] = ()
    check_returns: bool = True
    unsafe: bool = False
    unsafe_self_graded: bool = False


class ChecksSection(Section):
    """[checks]: what a candidate must pass before it costs a rollout."""

    prompt_growth: Annotated[float, Field(ge=1, le=1000)] = 4.0
    types: bool = True
    tests: bool = True
    tests_s: Positive = 120.0
