"""Which of the prompts that reached a model are declared, where, and under which names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.types import PromptFile
from ratchet.wire.codemods import declare
from ratchet.wire.deriving.declarations import Declarations, declarations
from ratchet.wire.deriving.prompts import sent_prompts
from ratchet.wire.recording.recording import CommandRun, ModelText, Recording, WatchedCall

RULES = "You answer for the shop, and you say so where you do not know."


def recording(root: Path, *texts: str) -> Recording:
    """A recorded run that sent these texts."""
    call = WatchedCall(
        number=0,
        method="POST",
        path="/v1/chat/completions",
        host="api.example.com",
        dialect="openai-chat",
        request={},
        texts=tuple(ModelText(role="system", text=text) for text in texts),
        response="",
        answer=b"",
        content_type="",
        status=200,
        streamed=False,
        seconds=0.0,
        stack=(),
        pid=0,
    )
    return Recording(
        run=CommandRun(argv=("python", "agent.py")),
        root=str(root),
        simulated=False,
        exit_code=0,
        timed_out=False,
        stdout="",
        stderr_tail="",
        response="",
        response_status=0,
        seconds=0.0,
        overhead_s=0.0,
        calls=(call,),
        base_url_variables=(),
        constructors=(),
        contacts=(),
        writes=(),
        programs=(),
        missing=(),
        data_files_read=(),
        settings_read=(),
        modules_loaded=(),
        python=None,
        placeholders=(),
        notes=(),
    )


def decided(root: Path, files: dict[str, bytes], *texts: str) -> Declarations:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return declarations(root, sent_prompts(root, files, recording(root, *texts), ())[0])


CODE = {
    "a constant": f'RULES = "{RULES}"\n',
    "after a byte order mark": f'\ufeffimport os\n\nRULES = "{RULES}"\n',
    "behind wide characters": f'# äöü — 漢字\nRULES = "{RULES}"\n',
    "with CRLF": f'import os\r\nRULES = """{RULES}\r\n"""\r\n',
    "adjacent pieces in brackets": f'RULES = (\n    "{RULES[:20]}"\n    "{RULES[20:]}"\n)\n',
    "an f-string": f'def rules(name):\n    return f"{{name}}: {RULES}"\n',
}


@pytest.mark.parametrize("case", CODE)
def test_a_text_in_code_is_declared_where_it_stands(tmp_path: Path, case: str) -> None:
    made = decided(tmp_path, {"shop.py": CODE[case].encode()}, f"Ann: {RULES}")
    assert [literal.name for literal in made.literals] == ["rules"]
    assert made.left == ()
    done = declare(tmp_path, made.literals)
    assert done.names == ("rules",)
    assert done.changes.left_alone == ()


def test_a_sum_of_literals_is_left_with_its_line(tmp_path: Path) -> None:
    source = (
        """NAME = "Ann"\nRULES = "You answer in the name of " + NAME + ", who owns the shop."\n"""
    )
    sent = "You answer in the name of Ann, who owns the shop."
    made = decided(tmp_path, {"shop.py": source.encode()}, sent)
    (left,) = declare(tmp_path, made.literals).changes.left_alone
    assert str(left.place) == "shop.py:2"
    assert "write it as one literal" in left.why


DATA = {
    "prompts.yaml": (
        f"desk:\n  system: >\n    {RULES}\n  other: Nothing that is sent.\n",
        "desk.system",
    ),
    "prompts.toml": (f'[desk]\nsystem = """{RULES}"""\n', "desk.system"),
    "prompts.json": (f'{{"desk": [{{"system": "{RULES}"}}]}}', "desk.0.system"),
}


@pytest.mark.parametrize("name", DATA)
def test_a_field_of_a_settings_file_is_declared_by_its_keys(tmp_path: Path, name: str) -> None:
    text, field = DATA[name]
    made = decided(tmp_path, {name: text.encode()}, RULES)
    assert made.files == (PromptFile(name, (field,)),)
    assert (made.literals, made.left) == ((), ())


def test_files_of_text_are_declared_whole_and_those_of_one_name_told_apart(tmp_path: Path) -> None:
    other = RULES.replace("shop", "library")
    files = {"desk/system.md": f"{RULES}\n".encode(), "lend/system.md": f"{other}\n".encode()}
    made = decided(tmp_path, files, RULES, other)
    assert made.files == (
        PromptFile("desk/system.md", name="desk.system"),
        PromptFile("lend/system.md", name="lend.system"),
    )


def test_a_text_that_stands_in_two_places_is_left_in_both(tmp_path: Path) -> None:
    files = {name: f'RULES = "{RULES}"\n'.encode() for name in ("a.py", "b.py")}
    made = decided(tmp_path, files, RULES)
    assert (made.literals, made.files) == ((), ())
    assert [str(left.place) for left in made.left] == ["a.py:1", "b.py:1"]
    assert "also at b.py:1" in made.left[0].why
