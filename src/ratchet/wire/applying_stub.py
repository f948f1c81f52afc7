"""Stub."""

from pathlib import Path

import msgspec


class PlannedFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: bytes | None
    after: bytes
    purpose: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    files: tuple[PlannedFile, ...]


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    branch: str
    commit: str


def show(plan: Plan) -> str:
    return "\n".join(f"+++ {f.path}\n{f.after.decode()}" for f in plan.files)


def write(plan: Plan) -> None:
    for f in plan.files:
        (Path(plan.root) / f.path).write_bytes(f.after)


def commit(plan: Plan, branch: str, message: str) -> Committed:
    write(plan)
    return Committed(branch=branch, commit="0" * 40)
