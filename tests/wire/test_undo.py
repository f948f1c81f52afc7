"""Undo removes what the wiring made, and nothing of the user's."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.types import InputError
from ratchet.wire.applying import commit, undo, write
from ratchet.wire.applying.record import recorded_file
from ratchet.wire.applying.taken_back import take_back
from ratchet.wire.changes import FileChange, Piece
from tests.wire.wired import AGENT, FILES, git, plan_of, repository, snapshot

LINES = (
    "# a note: ((",
    "COUNT = len([1, 2, 3])",
    "import os",
    "",
    "def more(a, b=(1, 2)):",
    "    return {'a': a, \"b\": b}",
    "@tool",
    "x = str(min(3, 4))",
    "it's (",
)
WORDS = ("shelf", "read (aloud)", "é 🚚", "Mon day", "b'", "c,")


def _wired(tmp_path: Path, files: dict[str, str] | None = None) -> tuple[Path, dict[str, bytes]]:
    root = repository(tmp_path / "made", files)
    before = snapshot(root)
    commit(root, plan_of(root))
    return root, before


def test_undo_gives_the_first_tree_again(tmp_path: Path) -> None:
    root, before = _wired(tmp_path)
    assert "ratchet" in (root / "agent.py").read_text()
    report = undo(root)
    assert not report.kept
    assert snapshot(root) == before
    assert git(root, "rev-parse", "HEAD^{tree}") == git(root, "rev-parse", "main^{tree}")
    assert git(root, "rev-list", "--count", "main..HEAD") == "2"


def test_files_written_without_git_are_taken_back_too(tmp_path: Path) -> None:
    root = tmp_path / "plain 🚚"
    for path, text in FILES.items():
        root.mkdir(exist_ok=True)
        (root / path).write_text(text)
    before = snapshot(root)
    write(root, plan_of(root))
    assert (root / "ratchet.toml").exists()
    undo(root, write=True)
    assert snapshot(root) == before
    with pytest.raises(InputError, match="was not wired"):
        undo(root, write=True)


# --- edits of the user

_EDITS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from(["insert", "delete", "word"]),
        st.integers(0, 400),
        st.sampled_from(LINES),
        st.sampled_from(WORDS),
    ),
    max_size=12,
)


def _edited(text: str, literal: bool, edits: list[tuple[str, int, str, str]]) -> str:
    """A text that is not ours after edits: of whole lines, and of words in a literal."""
    for kind, at, line, word in edits:
        if kind == "word" and literal:
            words = text.split(" ")
            if len(words) > 2:
                words[1 + at % (len(words) - 2)] = word.replace("'", "")
                text = " ".join(words)
        elif kind != "word" and not literal:
            lines = text.splitlines(keepends=True)
            inner = range(1, len(lines) - 1)  # the first and the last one are shared with ours
            if not inner:
                continue
            number = inner[at % len(inner)]
            if kind == "insert":
                lines.insert(number, line + "\n")
            elif "'''" not in lines[number] and '"""' not in lines[number]:
                del lines[number]
            text = "".join(lines)
    return text


@given(_EDITS)
def test_undo_after_edits_gives_the_edits_of_the_first_file(
    edits: list[tuple[int, str, int, str, str]],
) -> None:
    pieces = _PIECES
    before = AGENT.encode()
    kept, at = [], 0
    for piece in pieces:
        kept.append(before[at : piece.start].decode())
        at = piece.end
    kept.append(before[at:].decode())
    for number, text in enumerate(kept):
        mine = [tuple(one[1:]) for one in edits if one[0] % len(kept) == number]
        literal = number > 0 and text.startswith(('"""', "'"))
        kept[number] = _edited(text, literal, mine)  # type: ignore[arg-type]
    wired = kept[0] + "".join(p.text + k for p, k in zip(pieces, kept[1:], strict=True))
    wanted = kept[0] + "".join(
        before[p.start : p.end].decode() + k for p, k in zip(pieces, kept[1:], strict=True)
    )
    recorded = recorded_file(FileChange("agent.py", "", pieces), before)
    after = take_back(wired, "agent.py", recorded.pieces)
    assert after.text == wanted
    assert not after.kept


def _pieces() -> tuple[Piece, ...]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, text in FILES.items():
            (root / path).write_text(text)
        files = plan_of(root).changes.files
    return next(one.pieces for one in files if one.path == "agent.py")


_PIECES = _pieces()
