"""Places that text comes from, and the steps by which it is followed."""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.wire.looking.meanings import CallFrame
from ratchet.wire.looking.syntax import CodeScope, Syntax, TextTemplate, TextValue


@dataclass(frozen=True, eq=False)
class TextOrigin:
    """One place that text comes from."""

    kind: str
    """`text`, `file`, `outside`, `store`."""
    role: str
    path: str
    line: int = 0
    syntax: TextValue | TextTemplate | None = None
    scope: CodeScope | None = None
    """Where the text stands."""
    holder: str = ""
    """Name that it is bound to."""
    builder: CodeScope | None = None
    """The function whose result it is, or a part of it."""
    keys: tuple[str, ...] = ()
    """Of a file of data: the keys that are read; empty for the whole file."""
    fields: frozenset[str] = frozenset()
    """Of a file of data: the keys that hold prompts; empty if any may."""
    joined: bool = False
    """Joined with other text in the program."""
    whole: Syntax | None = None
    """The sum that it is an operand of."""
    pieced: bool = False
    """The name that it is bound to gets text added."""
    iterated: bool = False
    """One of several that a loop goes through."""


@dataclass(frozen=True, eq=False)
class FlowStep:
    """An expression that is followed, and how it was reached."""

    syntax: Syntax
    scope: CodeScope
    frame: CallFrame | None
    role: str
    holder: str = ""
    builder: CodeScope | None = None
    outer: CodeScope | None = None
    joined: bool = False
    slot: bool = False
    keys: tuple[str, ...] = ()
    whole: Syntax | None = None
    pieced: bool = False
    iterated: bool = False
    depth: int = 0
    seen: frozenset[int] = frozenset()

    def key(self) -> tuple[object, ...]:
        """What decides which origins are found from here."""
        calls: list[int] = []
        frame = self.frame
        while frame is not None and len(calls) < 2:
            calls.append(id(frame.invocation))
            frame = frame.parent
        holders = (id(self.scope), id(self.builder), id(self.whole), self.holder)
        return (id(self.syntax), self.role, self.slot, self.keys, *holders, *calls)

    def to(
        self, syntax: Syntax, *, at: Syntax | None = None, again: bool = False, **changes: object
    ) -> FlowStep:
        """The next step."""
        values: dict[str, object] = {
            "scope": self.scope,
            "frame": self.frame,
            "role": self.role,
            "holder": self.holder,
            "builder": self.builder,
            "outer": self.outer,
            "joined": self.joined,
            "slot": self.slot,
            "keys": self.keys,
            "whole": self.whole if at is None else None,
            "pieced": self.pieced and at is None,
            "iterated": self.iterated,
            **changes,
        }
        seen = self.seen if again else self.seen | {id(self.syntax)}
        return FlowStep(syntax, depth=self.depth + 1, seen=seen, **values)  # type: ignore[arg-type]
