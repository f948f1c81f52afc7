"""Texts that make one prompt together, and how it can be bound."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ratchet.wire.facts import BindingWay, Place, PromptKind, PromptPart, PromptSite
from ratchet.wire.looking.syntax import TextTemplate, TextValue, static_text

LEAST_WORDS = {
    "system": 4,
    "user": 10,
    "tool": 20,
    "joined": 10,
    "template": 8,
    "named": 6,
    "cued": 4,
}
"""Words of static text from which text counts as a prompt: shorter messages are data."""

HOW: dict[str, tuple[BindingWay, str]] = {
    "constant": ("codemod", "wrap the literal in ratchet.prompt(…)"),
    "f-string": ("codemod", "turn its slots into named ones and wrap it in ratchet.prompt(…)"),
    "inline": ("codemod", "wrap the literal in ratchet.prompt(…) where it stands"),
    "builder": ("function", "bind what the function returns, or use the gateway"),
    "class attribute": ("codemod", "wrap the attribute's literal in ratchet.prompt(…)"),
    "signature": ("codemod", "bind the signature's instructions"),
    "yaml": ("overlay", "overlay the file; no code changes"),
    "toml": ("overlay", "overlay the file; no code changes"),
    "json": ("overlay", "overlay the file; no code changes"),
    "text": ("overlay", "overlay the file; no code changes"),
    "framework default": ("gateway", "replace it in the gateway; the text is the framework's"),
    "store": ("adapter", "read and write it through the store's adapter"),
}
_CUE = re.compile(r"\w:\s*$")
"""The end of a text that leaves the rest to the model: `Answer:`."""
FILES = ("yaml", "json", "toml", "text")


def _words(text: str) -> int:
    """Words of a text; an address or a name without a space has none."""
    return len(re.findall(r"[^\W\d_]{2,}", text)) if re.search(r"\s", text.strip()) else 0


@dataclass
class PromptGroup:
    """Texts that make one prompt."""

    kind: PromptKind
    name: str
    role: str
    framework: str
    parts: dict[tuple[str, int, str], PromptPart] = field(default_factory=dict)
    reaches: set[Place] = field(default_factory=set)
    joined: bool = False
    """Joined with other text, wherever it goes."""
    named: bool = False
    """Bound to a name that says that it is a prompt."""
    by_name: bool = False
    """Known by the name under which the code reads it."""

    def add(self, path: str, syntax: TextValue | TextTemplate, field_: str) -> None:
        """Add a literal."""
        slots = syntax.sources if isinstance(syntax, TextTemplate) else ()
        part = PromptPart(
            field_, Place(path, syntax.line), syntax.start, syntax.end, static_text(syntax), slots
        )
        self.parts[path, syntax.start, ""] = part

    def counts(self) -> bool:
        """Whether it is a prompt: it has the words of one, or is a file or the like."""
        if self.kind in (*FILES, "store", "signature", "framework default"):
            return True
        counts = [_words(part.text) for part in self.parts.values()]
        if self.role == "tool":
            return self.kind != "builder" and max(counts) >= LEAST_WORDS["tool"]
        if self.joined:
            return sum(counts) >= LEAST_WORDS["joined"]
        least = LEAST_WORDS.get(self.role, 4)
        if any(part.slots for part in self.parts.values()):
            least = min(least, LEAST_WORDS["named" if self.named else "template"])
            if self.named and any(_CUE.search(part.text) for part in self.parts.values()):
                least = LEAST_WORDS["cued"]
        return sum(counts) >= least

    def made(self) -> PromptSite:
        """The prompt."""
        parts = sorted(self.parts.values(), key=lambda part: (part.place, part.start))
        way, how = HOW[self.kind]
        reached = sorted(self.reaches)
        return PromptSite(
            self.name,
            self.kind,
            Place(parts[0].place.path) if self.kind in FILES else parts[0].place,
            "user" if self.role == "tool" else self.role,
            tuple(parts),
            way,
            how,
            tuple(reached),
            self.framework,
            0.7 if self.by_name else 0.95 if self.kind != "builder" else 0.85,
            f"known by its name at {reached[0]}; where its text goes was not followed"
            if self.by_name
            else f"its text flows into the call at {reached[0]}",
        )
