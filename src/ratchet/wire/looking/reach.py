"""Whether a function is called from code that is the agent's own."""

from __future__ import annotations

from ratchet.wire.facts import Place
from ratchet.wire.looking.program import Program
from ratchet.wire.looking.syntax import CodeScope


def unreached(program: Program, place: Place, dead: dict[str, str]) -> str:
    """Why a call is never made by the agent: only scripts or tests name its function; or empty."""
    module = program.module(place.path)
    if module is None:
        return ""
    holder: CodeScope | None = None
    for scope in module.scope.walk():
        if scope.kind == "function" and any(call.line == place.line for call in scope.invocations):
            holder = scope
    while holder is not None and holder.parent is not None and holder.parent.kind == "function":
        holder = holder.parent
    if holder is None or holder.method_of is not None or holder.decorators:
        return ""
    users = [
        one.path
        for one in program.users_of(holder.name)
        if one.path != place.path or _used_within(one.scope, holder)
    ]
    if users and all(path in dead for path in users):
        return f"only {users[0]} uses {holder.name} ({dead[users[0]]})"
    return ""


def _used_within(scope: CodeScope, holder: CodeScope) -> bool:
    return any(holder.name in one.used for one in scope.walk() if one is not holder)
