"""Writes tasks.jsonl: letters with marks from the interpreter's own Unicode database."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

NAME = re.compile(r"LATIN (CAPITAL|SMALL) LETTER ([A-Z]) WITH .+")


def tasks() -> list[dict[str, str]]:
    """All Latin letters with marks: their name, and the letter without the marks."""
    names = (unicodedata.name(chr(code), "") for code in range(0xC0, 0x250))
    found = [match for name in names if (match := NAME.fullmatch(name))]
    return [{"input": m[0], "expected": m[2] if m[1] == "CAPITAL" else m[2].lower()} for m in found]


if __name__ == "__main__":
    lines = [json.dumps(task) for task in tasks()]
    Path(__file__).with_name("tasks.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
