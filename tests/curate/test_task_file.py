"""Task files: a bad line is named with its number, and is left out only when that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.curate import read_tasks
from ratchet.curate.task_file import MAX_DEPTH, MAX_ID_CHARACTERS, MAX_LINE_BYTES
from ratchet.types import InputError

GOOD = '{"id": "good", "input": "q", "expected": "ä"}\n'.encode()


def written(folder: Path, *lines: bytes) -> Path:
    path = folder / "tasks.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def nested(depth: int) -> bytes:
    return b'{"input": ' + b"[" * depth + b"]" * depth + b"}\n"


BAD_LINES = {
    b"not json\n": "not JSON: Expecting value at column 1",
    b'{"input": "a"\n': "not JSON",
    b'{"input": "a"} {"input": "b"}\n': "not JSON: Extra data",
    b"['input']\n": "not JSON",
    b'{"input": "\xff\xfe"}\n': "byte 12 of the line is not UTF-8",
    b'\xff\xfe{\x00"\x00\n': "byte 1 of the line is not UTF-8",
    b'{"input": NaN}\n': "NaN is not JSON",
    b'{"input": 1, "input": 2}\n': "the key 'input' occurs again at column 14",
    b'{"input": [{"a": 1, "\\u0061": 2}]}\n': "the key 'a' occurs again at column 21",
    b'{"input": [-Infinity]}\n': "-Infinity is not JSON",
    b'{"input": 1e999}\n': "no JSON form",
    b'{"id": "x", "input": {"a": [1e999]}}\n': "no JSON form",
    b'{"input": ' + b"9" * 5000 + b"}\n": "digits",
    b'{"input": "\\ud800"}\n': "no JSON form",
    b'{"id": "x", "input": "a", "expected": "\\udc00"}\n': "no JSON form",
    nested(100_000): "nested too deeply",
    nested(MAX_DEPTH + 1): "nested too deeply",
    b'["input"]\n': "the line is a list",
    b'"text"\n': "the line is a text",
    b"17\n": "the line is a number",
    b"true\n": "the line is a boolean",
    b"null\n": "the line is null",
    b'{"question": "a", "id": "b"}\n': "the task has no 'input'; its keys are ['id', 'question']",
    b'{"input": "a", "metadata": [1]}\n': "metadata is a list",
    b'{"input": "a", "id": ""}\n': "the id '' is not a string",
    b'{"input": "a", "id": 1.5}\n': "the id 1.5 is not a string",
    b'{"input": "a", "id": true}\n': "the id True is not a string",
    b'{"input": "a", "id": ["b"]}\n': "the id ['b'] is not a string",
    b'{"input": "a", "id": "a\\nb"}\n': "cannot be printed",
    b'{"input": "a", "id": "a\\u0000"}\n': "cannot be printed",
    b'{"input": "a", "id": "\\ud800"}\n': "cannot be printed",
    b'{"input": "a", "id": "' + b"x" * 10_000 + b'"}\n': f"{MAX_ID_CHARACTERS} are allowed",
    b'{"input": "a", "id": "good"}\n': "the id 'good' is already on line 1",
}


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:24].decode("latin-1").strip())
def test_a_bad_line_is_named_and_left_out_only_on_demand(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, GOOD, b"\r\n", b"   \n", line, b'{"input": "last"}\n')
    with pytest.raises(InputError) as raised:
        read_tasks(path)
    assert raised.value.message.startswith(f"{path}:4: ")
    assert BAD_LINES[line] in raised.value.message
    assert "--skip-bad" in str(raised.value.hint)

    file = read_tasks(path, skip_bad=True)
    assert [task.input for task in file.tasks] == ["q", "last"]
    assert len(file.bad) == 1
    assert file.bad[0].startswith(f"{path}:4: ")


def test_a_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    long = b'{"input": "' + b"x" * MAX_LINE_BYTES + b'"}\n'
    with pytest.raises(InputError, match=":2: the line has more than 16 MiB"):
        read_tasks(written(tmp_path, GOOD, long))


@pytest.mark.parametrize("content", [b"", b"\n\r\n  \n", b"\xef\xbb\xbf"])
def test_a_file_without_tasks_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="contains no tasks"):
        read_tasks(written(tmp_path, content))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no task file"):
        read_tasks(tmp_path / "missing.jsonl")
    with pytest.raises(InputError, match="Is a directory"):
        read_tasks(tmp_path)


def test_marks_line_ends_and_a_missing_last_line_break_do_no_harm(tmp_path: Path) -> None:
    path = written(
        tmp_path, b'\xef\xbb\xbf{"input": "one"}\r\n', b"\r\n", b'  {"input": "tw\xc3\xb6"}'
    )
    assert [task.input for task in read_tasks(path).tasks] == ["one", "twö"]


def test_ids_are_taken_as_text_or_made_of_the_content(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        b'{"id": 7, "input": "a"}\n',
        b'{"id": null, "input": "b"}\n',
        b'{"input": "c", "expected": ["x", "y"]}\n',
    )
    first, second, third = read_tasks(path).tasks
    assert first.id == "7"
    assert third.id == third.content()[:12]
    assert len(second.id) == 12
    assert second.id != third.id


def test_the_same_task_twice_without_ids_is_a_duplicate(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":2: the same task is already on line 1"):
        read_tasks(written(tmp_path, b'{"input": "a"}\n', b'{"input": "a"}\n'))


def test_a_file_may_have_keys_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"nr": 3, "question": {"a": 1}, "answer": null, "input": "kept"}\n')
    fields = {"id": "nr", "input": "question", "expected": "answer"}
    (task,) = read_tasks(path, fields=fields).tasks
    assert (task.id, task.input, task.expected) == ("3", {"a": 1}, None)
    assert task.metadata == {"input": "kept"}
