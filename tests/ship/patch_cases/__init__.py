"""Sources of real shapes with a change of each, and the exact patch or the reason of the refusal.

A file holds cases of one theme:

    ====== what the case shows
    ==> agent.py crlf <==
    the file; `crlf`, `bom` and `open` (no line end at its end) say how it is stored
    ==> change prompt system <==
    the candidate's text; JSON for params and models; Python for code
    ==> diff agent.py <==
    the hunks of the patch, without lines around them
    ==> refused <==
    lines that the message holds, where there is no patch

`change text NAME` is of a prompt that nothing declares: a section `text NAME` gives its old text.
`␌` stands for a form feed, `␠` for a blank and `␊` for a line end at the end of a text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent

_CASE = re.compile(r"^====== (.+)\n", re.MULTILINE)
_SECTION = re.compile(r"^==> (.+) <==\n", re.MULTILINE)
_SPELLED = {"␌": "\f", "␠": " ", "␊": "\n"}


@dataclass
class Case:
    """A source, a change, and what comes of it."""

    theme: str
    """Name of its file."""
    title: str
    files: dict[str, bytes] = field(default_factory=dict)
    changes: dict[tuple[str, str], str] = field(default_factory=dict)
    """New text by kind and name."""
    texts: dict[str, str] = field(default_factory=dict)
    """Old text of prompts that nothing declares."""
    diffs: dict[str, str] = field(default_factory=dict)
    """Expected hunks by file."""
    refused: str = ""
    """Expected lines of the message."""

    def __str__(self) -> str:
        return f"{self.theme}: {self.title}"


def read_cases() -> list[Case]:
    """All cases."""
    return [case for path in sorted(FOLDER.glob("*.txt")) for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[Case]:
    _, *parts = _CASE.split(path.read_text(encoding="utf-8"))
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        case = Case(path.stem, title)
        # The blank line between two cases belongs to neither.
        _, *sections = _SECTION.split(body[:-1] if body.endswith("\n\n") else body)
        for head, content in zip(sections[::2], sections[1::2], strict=True):
            _add(case, head.split(), content)
        yield case


def _add(case: Case, words: list[str], content: str) -> None:
    for sign, character in _SPELLED.items():
        content = content.replace(sign, character)
    match words:
        case ["change", kind, name]:
            case.changes[kind, name] = content.removesuffix("\n")
        case ["text", name]:
            case.texts[name] = content.removesuffix("\n")
        case ["diff", path]:
            case.diffs[path] = content
        case ["refused"]:
            case.refused = content
        case [path, *marks]:
            assert set(marks) <= {"crlf", "bom", "open"}, marks
            content = content.removesuffix("\n") if "open" in marks else content
            content = content.replace("\n", "\r\n") if "crlf" in marks else content
            case.files[path] = (b"\xef\xbb\xbf" if "bom" in marks else b"") + content.encode()
        case _:
            raise AssertionError(f"{case}: no section is called {' '.join(words)}")


def hunks(old: bytes, new: bytes) -> str:
    """The difference of two files without lines around it, line ends as LF."""
    both = [data.decode().replace("\r\n", "\n").splitlines(keepends=True) for data in (old, new)]
    lines = list(difflib.unified_diff(*both, n=0))[2:]
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
