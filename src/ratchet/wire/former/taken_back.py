"""A file without what the wiring put into it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence

import msgspec

from ratchet.wire.former.locate import FoundPieces, locate, pairs_of, whole_lines
from ratchet.wire.former.plan import unreadable
from ratchet.wire.former.record import DEFINING, RecordedPiece, encoded
from ratchet.wire.former.tokens import is_name, tokens_of


class KeptPiece(msgspec.Struct, frozen=True):
    """A piece that stays, because its file needs it or the user changed it."""

    number: int
    line: int
    text: str
    """What stands there."""
    why: str
    edited: bool
    """Whether the user changed it."""


class TakenBack(msgspec.Struct, frozen=True):
    """A file after undo."""

    text: str
    kept: tuple[KeptPiece, ...]
    gone: tuple[int, ...]
    """Pieces that were not there any more."""
    replaced: tuple[tuple[int, int, str], ...]
    """(start, end, text put back) in the file as it was before undo, in order."""

    def place_before(self, position: int) -> int:
        """Where a position of the text stood before undo."""
        shift = 0
        for start, end, put in self.replaced:
            if start + shift + len(put) > position:
                break
            shift += len(put) - (end - start)
        return position - shift


def take_back(text: str, path: str, pieces: Sequence[RecordedPiece]) -> TakenBack:
    """Remove pieces from a text, and put back what they replaced.

    A piece that the user changed stays, with all that uses the names it defines; a definition whose
    name is still used stays too.
    """
    found = locate(text, path, pieces)
    pairs = pairs_of(pieces, path)
    why = dict.fromkeys(found.edited, "it was changed")
    for opener, closer in pairs.items():
        if opener not in found.spans or closer not in found.spans:
            why.setdefault(opener, "it was changed")
            why.setdefault(closer, "it was changed")
    held = {number: _defined(piece.inserted, path) for number, piece in enumerate(pieces)}
    while True:
        reason = _held_back(text, path, pieces, found, why, held)
        if not reason:
            break
        why |= reason
        for opener, closer in pairs.items():
            if opener in reason or closer in reason:
                shared = reason.get(opener) or reason[closer]
                why.setdefault(opener, shared)
                why.setdefault(closer, shared)
    kept = []
    for number, reason_ in sorted(why.items()):
        span = found.edited.get(number) or found.spans.get(number)
        if span is not None:
            line = text.count("\n", 0, span[0]) + 1
            shown = " ".join(text[span[0] : span[1]].split())
            kept.append(KeptPiece(number, line, shown, reason_, number in found.edited))
    gone = [n for n in range(len(pieces)) if n not in found.spans and n not in found.edited]
    replaced = _replaced(text, path, pieces, found, why)
    return TakenBack(_applied(text, replaced), tuple(kept), tuple(gone), tuple(replaced))


def _replaced(
    text: str,
    path: str,
    pieces: Sequence[RecordedPiece],
    found: FoundPieces,
    why: dict[int, str],
) -> list[tuple[int, int, str]]:
    put = {number: piece.removed for number, piece in enumerate(pieces)}
    spans = dict(found.spans)
    closers = pairs_of(pieces, path)
    for number, opener in carried(pieces, path).items():
        start, end = spans.get(opener), spans.get(closers[opener])
        if number in spans and start is not None and end is not None and number not in why:
            # The text returns to where it was, as it is now; its definition goes as a whole.
            put[number] = text[start[1] : end[0]].strip()
            spans[opener] = whole_lines(
                text, start[0], end[1], pieces[opener], pieces[closers[opener]]
            )
            del spans[closers[opener]]
    for number, span in spans.items():
        end = spans.get(closers.get(number, number), span)
        inner = put[number] if end == span else text[span[1] : end[0]]
        # A formatter drops brackets around strings of several lines where ours are inside.
        dropped = pieces[number].before.rstrip().endswith("(")
        dropped = dropped and not text[: span[0]].rstrip().endswith("(")
        if dropped and _lines_of_strings(inner, path) and not unreadable(path, encoded(text)):
            put[number] = "(" + put[number]
            put[closers.get(number, number)] += ")"
    if "\r\n" in text:
        put = {n: one.replace("\r\n", "\n").replace("\n", "\r\n") for n, one in put.items()}
    return sorted((*span, put[n]) for n, span in spans.items() if n not in why)


def carried(pieces: Sequence[RecordedPiece], path: str) -> dict[int, int]:
    """By its number, a piece that stands for a text that was moved: the piece that opens that."""
    found = {}
    for opener, _ in pairs_of(pieces, path).items():
        defined = DEFINING.match(pieces[opener].inserted)
        using = [
            number
            for number, piece in enumerate(pieces)
            if defined and piece.removed and re.search(rf"\b{defined[1]}\b", piece.inserted)
        ]
        if len(using) == 1:
            found[using[0]] = opener
    return found


_SCRIPT_IMPORT = re.compile(r"import \* as (\w+) from|const (\w+) = require\(")


def _lines_of_strings(text: str, path: str) -> bool:
    """Whether a text is strings on several lines, which need brackets around them."""
    words = [one.text for one in tokens_of(text, path)]
    return "\n" in text and len(words) > 1 and all(one[-1] in "\"'" for one in words)


def _applied(text: str, replaced: Sequence[tuple[int, int, str]]) -> str:
    parts, at = [], 0
    for start, end, put in replaced:
        parts += [text[at : max(at, start)], put]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _held_back(
    text: str,
    path: str,
    pieces: Sequence[RecordedPiece],
    found: FoundPieces,
    why: dict[int, str],
    defined: dict[int, frozenset[str]],
) -> dict[int, str]:
    """Pieces that must stay beside those which do, with the reason."""
    if not any(defined.values()):
        return {}
    left = _applied(text, _replaced(text, path, pieces, found, why))
    used = {token.text for token in tokens_of(left, path) if is_name(token.text)}
    changed = frozenset[str]().union(
        *(
            names
            for number, names in defined.items()
            if number in found.edited and not _imports(pieces[number].inserted)
        )
    )
    reasons = {}
    for number, piece in enumerate(pieces):
        if number in why or number not in found.spans:
            continue
        still = sorted(defined[number] & used)
        uses = {token.text for token in tokens_of(piece.inserted, path)} & changed
        if still:
            reasons[number] = f"{still[0]} is still used"
        elif uses:
            reasons[number] = f"it uses {min(uses)}, which was changed"
    return reasons


def _imports(text: str) -> bool:
    return text.lstrip().startswith(("import ", "from ")) or _SCRIPT_IMPORT.search(text) is not None


def _defined(text: str, path: str) -> frozenset[str]:
    """Names that a piece binds as statements of its own."""
    if found := _SCRIPT_IMPORT.search(text):
        return frozenset({found[1] or found[2]})
    if not path.endswith(".py"):
        return frozenset()
    if (opening := DEFINING.match(text)) and "(" in text and "\n" not in text:
        return frozenset({opening[1]})  # of a text that was moved
    if "\n" not in text:
        return frozenset()  # a part of a statement
    try:
        tree = ast.parse(textwrap.dedent(text.strip("\r\n")))
    except (SyntaxError, ValueError):
        return frozenset()
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, ast.Assign):
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    return frozenset(names)
