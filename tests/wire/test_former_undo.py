"""Undo removes what the wiring made, and nothing of the user's."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.types import InputError
from ratchet.wire import look
from ratchet.wire.changes import FileChange, Piece, apply_pieces
from ratchet.wire.former import undo, write
from ratchet.wire.former.record import RecordedPiece, recorded_file
from ratchet.wire.former.taken_back import take_back
from tests.wire.repositories import LOOK_ALIKES, LookAlike
from tests.wire.wired import AGENT, FILES, git, plan_of, repository, snapshot, wired
from tests.wire.wiring import wired_and_undone

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


def _wired(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    before = {path: text.encode() for path, text in FILES.items()}
    return wired(tmp_path / "made"), before


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


def _user(root: Path, text: str) -> None:
    (root / "agent.py").write_text(text)
    git(root, "commit", "-aqm", "the user's edits")


def _ruff(text: str, *options: str) -> str:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "format",
            "--isolated",
            *options,
            "--stdin-filename",
            "a.py",
        ],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    "options",
    [(), ("--line-length", "40"), ("--config", "format.quote-style='single'")],
    ids=["usual", "narrow", "single quotes"],
)
def test_undo_after_a_formatter_gives_what_it_makes_of_the_first_file(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    root, _ = _wired(tmp_path)
    _user(root, _ruff((root / "agent.py").read_text(), *options))
    report = undo(root)
    assert not report.kept
    text = (root / "agent.py").read_text()
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(AGENT))
    assert "ratchet" not in text
    if not options:
        assert _ruff(text) == _ruff(AGENT)


@pytest.mark.parametrize("first", ["X = (\n{}\n)\n", "call(a=(\n{}\n), b=1)\n"])
@pytest.mark.parametrize("made", ['str(ratchet.prompt("x", {}))', "str(_X)"])
def test_strings_on_several_lines_keep_the_brackets_that_a_formatter_dropped(
    first: str, made: str
) -> None:
    strings = '"You plan the shelves of a public library, "\n    "and say why."'
    before = first.format(f"    {strings}")
    start = before.index(strings)
    piece = Piece(start, start + len(strings), made.format(strings))
    recorded = recorded_file(FileChange("a.py", "", (piece,)), before.encode())
    wired = apply_pieces(before.encode(), [piece]).decode()
    after = take_back(_ruff(wired, "--line-length", "60"), "a.py", recorded.pieces)
    assert ast.dump(ast.parse(after.text)) == ast.dump(ast.parse(before))
    assert take_back(wired, "a.py", recorded.pieces).text == before


def test_pieces_that_were_moved_in_their_file_are_removed(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    text = (root / "agent.py").read_text()
    tone = next(line for line in text.splitlines(keepends=True) if line.startswith("TONE"))
    tool = text[text.index("@ratchet.tool") : text.index("def ask")]
    moved = text.replace(tone, "").replace(tool, "") + "\n\n" + tool + tone
    _user(root, moved)
    report = undo(root)
    assert not report.kept
    first_tone = next(line for line in AGENT.splitlines(keepends=True) if line.startswith("TONE"))
    first_tool = AGENT[AGENT.index("@tool") : AGENT.index("def ask")]
    wanted = AGENT.replace(first_tone, "").replace(first_tool, "")
    assert (root / "agent.py").read_text() == wanted + "\n\n" + first_tool + first_tone


def test_a_file_that_was_renamed_is_found(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    (root / "src").mkdir()
    git(root, "mv", "agent.py", "src/helper.py")
    git(root, "commit", "-qm", "renamed")
    undo(root)
    assert (root / "src/helper.py").read_text() == AGENT


def test_line_ends_that_were_changed_stay(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    data = (root / "agent.py").read_bytes().replace(b"\n", b"\r\n")
    (root / "agent.py").write_bytes(data)
    git(root, "commit", "-aqm", "line ends")
    undo(root)
    assert (root / "agent.py").read_bytes() == AGENT.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("way", ["merge", "rebase", "squash"])
def test_undo_after_the_branch_was_merged_removes_it_alone(way: str, tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    git(root, "switch", "-q", "main")
    edited = AGENT.replace("Monday", "Tuesday").replace("httpx", "")
    _user(root, edited)
    if way == "rebase":
        git(root, "switch", "-q", "ratchet/init")
        git(root, "rebase", "-q", "main")
        git(root, "switch", "-q", "main")
        git(root, "merge", "-q", "--ff-only", "ratchet/init")
    elif way == "merge":
        git(root, "merge", "-q", "--no-ff", "-m", "wired", "ratchet/init")
    else:
        git(root, "merge", "-q", "--squash", "ratchet/init")
        git(root, "commit", "-qm", "squashed")
    git(root, "branch", "-D", "ratchet/init")
    wanted = git(root, "rev-parse", "HEAD~1^{tree}" if way != "merge" else "HEAD^1^{tree}")
    undo(root)
    assert git(root, "rev-parse", "HEAD^{tree}") == wanted
    assert git(root, "branch", "--show-current") == "ratchet/undo-init"


def test_what_was_changed_in_our_pieces_is_kept_and_named(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    text = (root / "agent.py").read_text()
    text = text.replace('prompt("tone"', 'prompt("voice"')
    text = text.replace('closes at six in the evening.")', 'closes at seven.")')
    _user(root, text)
    report = undo(root)
    kept = {(one.place.line, one.text.partition("(")[0]) for one in report.kept}
    lines = text.splitlines()
    named = {line: lines[line - 1] for line, _ in kept}
    assert any("voice" in line for line in named.values())
    assert any(line.startswith("_TODAY = ") for line in named.values())
    after = (root / "agent.py").read_text()
    compile(after, "agent.py", "exec")
    # What the kept pieces need stays, and the others are gone.
    assert "import ratchet\n" in after
    assert "_TODAY.format(day=day)" in after
    assert 'prompt("rules"' not in after
    assert "side_effects" not in after


def test_a_prompt_that_was_improved_keeps_its_new_text(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    text = (root / "agent.py").read_text()
    _user(root, text.replace("Explain each choice", "Explain (shortly) each choice"))
    assert not undo(root).kept
    wanted = AGENT.replace("Explain each choice", "Explain (shortly) each choice")
    assert (root / "agent.py").read_text() == wanted


MOVED = """\
import anthropic

def ask(question):
    return anthropic.Anthropic().messages.create(
        model="m",
        system="You plan the shelves of a public library.",
        messages=[question],
    )
"""


def _moved() -> tuple[str, tuple[RecordedPiece, ...]]:
    literal = '"You plan the shelves of a public library."'
    at, top = MOVED.index(literal), MOVED.index("def ask")
    pieces = (
        Piece(top, top, f'_ASK = ratchet.prompt("ask", {literal})\n\n\n'),
        Piece(at, at + len(literal), "str(_ASK)"),
    )
    recorded = recorded_file(FileChange("a.py", "", pieces), MOVED.encode())
    return apply_pieces(MOVED.encode(), pieces).decode(), recorded.pieces


@pytest.mark.parametrize("options", [None, (), ("--line-length", "40")])
def test_a_text_that_was_moved_returns_as_it_is_now(options: tuple[str, ...] | None) -> None:
    wired, pieces = _moved()
    improved = wired.replace("public library", "small (public) library")
    wanted = MOVED.replace("public library", "small (public) library")
    for text, right in ((wired, MOVED), (improved, wanted)):
        after = take_back(text if options is None else _ruff(text, *options), "a.py", pieces)
        assert not after.kept
        assert (after.text if options is None else _ruff(after.text)) == (
            right if options is None else _ruff(right)
        )


def test_a_text_that_was_moved_stays_where_its_use_was_changed() -> None:
    wired, pieces = _moved()
    text = wired.replace("str(_ASK)", "str(_ASK).strip()")
    assert take_back(text, "a.py", pieces).text == MOVED.replace('library."', 'library.".strip()')
    text = wired.replace("str(_ASK)", "repr(_ASK)")
    after = take_back(text, "a.py", pieces)
    assert after.text == text
    assert "_ASK is still used" in {one.why for one in after.kept}


def test_an_import_that_the_user_uses_too_is_kept(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    text = (root / "agent.py").read_text()
    _user(root, text + "\n\n@ratchet.agent\ndef other(question):\n    return ask(question)\n")
    report = undo(root)
    assert [one.text for one in report.kept] == ["import ratchet"]
    assert "ratchet is still used" in report.kept[0].why
    assert (root / "agent.py").read_text().count("ratchet") == 2


def test_created_files_that_were_edited_are_kept_unless_forced(tmp_path: Path) -> None:
    root, before = _wired(tmp_path)
    with (root / "ratchet.toml").open("a") as file:
        file.write("\n[prove]\nalpha = 0.01\n")
    git(root, "commit", "-aqm", "stricter")
    report = undo(root)
    assert [str(one.place) for one in report.kept] == ["ratchet.toml"]
    assert "alpha = 0.01" in (root / "ratchet.toml").read_text()
    assert not (root / "tasks.jsonl").exists()
    undo(root, force=True, branch="ratchet/undo-again")
    assert snapshot(root) == before


def test_pieces_that_were_removed_by_hand_are_not_missed(tmp_path: Path) -> None:
    root, before = _wired(tmp_path)
    _user(root, AGENT)
    report = undo(root)
    assert not report.kept
    assert snapshot(root) == before


def test_what_a_kill_left_half_written_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "made")
    before = snapshot(root)
    plan = plan_of(root)
    written: list[str] = []

    def stop(source: str, target: Path) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(str(target))
        replace(source, target)

    replace = os.replace
    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write(root, plan)
    monkeypatch.undo()
    assert len(snapshot(root)) > len(before)
    undo(root, write=True)
    assert snapshot(root) == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not a record"),
        ("[]", "not a record"),
        ('{"version": 9, "ratchet": "9.1"}', "Ratchet 9.1, which is newer"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    (root / ".ratchet-init.json").write_text(text)
    with pytest.raises(InputError, match=sentence):
        undo(root)


def test_a_record_that_leads_outside_touches_nothing(tmp_path: Path) -> None:
    root, _ = _wired(tmp_path)
    (tmp_path / "mine.py").write_text("import ratchet\n")
    record = (root / ".ratchet-init.json").read_text()
    (root / ".ratchet-init.json").write_text(record.replace('"agent.py"', '"../mine.py"'))
    with pytest.raises(InputError, match="not a file of the repository"):
        undo(root, write=True)
    assert (tmp_path / "mine.py").read_text() == "import ratchet\n"


@pytest.mark.parametrize("case", LOOK_ALIKES, ids=lambda case: case.name)
def test_a_look_alike_is_wired_once_and_taken_back(case: LookAlike, tmp_path: Path) -> None:
    root = case.write(tmp_path)
    found = look(root)
    if found.entries:
        assert set(wired_and_undone(root, found).values()) == {""}
