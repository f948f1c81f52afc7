"""Parts of a stream: texts that grow within typed parts, such as Mistral's and OpenRouter's."""

from __future__ import annotations

from typing import Any

from ratchet.observe.model_apis.bounded_json import MAX_ITEMS, GrowingText, count, items, mapping

_GROWING = ("text", "thinking", "summary")
"""Fields of a part that arrive in pieces; all others arrive whole."""


class StreamedParts:
    """A list of typed parts. Adjacent pieces of the same type form one part."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._is_list = False
        self._text: GrowingText | None = None
        """The text that the next text continues, as long as only texts come."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, value: Any) -> None:
        """Add a piece: a text, or a list of parts; anything else is ignored."""
        if isinstance(value, str):
            if self._text is not None:
                self._text.add(value)
            elif value:
                self._add({"type": "text", "text": value})
                self._text = self._parts[-1].grown.get("text")
        elif isinstance(value, list):
            self._is_list = True
            self._text = None
            for piece in items(value):
                self._add(mapping(piece))

    def _add(self, piece: dict[str, Any]) -> None:
        part = self._continued(piece)
        if part is None:
            if len(self._parts) >= MAX_ITEMS:
                return
            part = _Part()
            self._parts.append(part)
        part.add(piece)

    def _continued(self, piece: dict[str, Any]) -> _Part | None:
        """The part that a piece continues; None if it begins another."""
        if not self._parts or not any(key in piece for key in _GROWING):
            return None
        index = count(piece.get("index"))
        candidates = self._parts[-1:] if index is None else reversed(self._parts)
        for part in candidates:
            if part.fields.get("type") == piece.get("type") and part.index == index:
                return part
        return None

    def whole(self) -> str | list[dict[str, Any]]:
        """The parts so far; a plain text if only text came."""
        if not self._is_list:
            return self._parts[0].grown["text"].text() if self._parts else ""
        return [part.whole() for part in self._parts]


class _Part:
    """A typed part."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.index: int | None = None
        self.grown: dict[str, GrowingText] = {}
        self.nested: dict[str, StreamedParts] = {}

    def add(self, piece: dict[str, Any]) -> None:
        self.index = count(piece.get("index")) if not self.fields else self.index
        for key, value in piece.items():
            if key not in _GROWING:
                if value is not None:
                    self.fields[key] = value
            elif isinstance(value, str):
                self.grown.setdefault(key, GrowingText()).add(value)
            elif isinstance(value, list):
                self.nested.setdefault(key, StreamedParts()).add(value)

    def whole(self) -> dict[str, Any]:
        texts = {key: growing.text() for key, growing in self.grown.items()}
        lists = {key: nested.whole() for key, nested in self.nested.items()}
        return {**self.fields, **texts, **lists}
