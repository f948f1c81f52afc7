"""Values of files: however a file holds them, and whatever is broken in it."""

from __future__ import annotations

import gzip
import json
import resource
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.curate.importing import file_values, read_values, rows_of, unwrapped
from ratchet.types import InputError


def values(path: Path) -> list[Any]:
    return [unit.value for unit in read_values(path) if not unit.error]


def errors(path: Path) -> list[tuple[int, str]]:
    return [(unit.line, unit.error) for unit in read_values(path) if unit.error]


def write(folder: Path, text: str | bytes, name: str = "file.json") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


THINGS = [{"id": 1, "text": 'a\nb ] } " é'}, {"id": 2, "list": [1, [2], {"x": None}]}, {"id": 3}]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, THINGS)),
        "\r\n\r\n".join(map(json.dumps, THINGS)) + "\r\n",
        "\ufeff" + "\n".join(map(json.dumps, THINGS)),
        json.dumps(THINGS),
        json.dumps(THINGS, indent=2),
        "[\n" + ",\n".join(map(json.dumps, THINGS)) + "\n]\n",
        json.dumps({"data": THINGS, "meta": {"page": 1}}),
        json.dumps({"traces": THINGS}, indent=1),
        "".join(json.dumps(thing, indent=4) for thing in THINGS),
    ],
    ids=range(9),
)
def test_a_file_is_read_in_whatever_form_it_holds_its_values(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert values(path) == THINGS
    assert errors(path) == []


def test_a_list_of_messages_is_one_conversation(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    for indent in (None, 2):
        assert values(write(tmp_path, json.dumps(talk, indent=indent))) == [talk]
    assert values(write(tmp_path, f"{json.dumps(talk)}\n{json.dumps(talk)}\n")) == [talk, talk]


def test_requests_that_hold_much_are_read_one_resource_at_a_time(tmp_path: Path) -> None:
    request = {"resourceSpans": [{"scopeSpans": []}, {"scopeSpans": [1]}]}
    path = write(tmp_path, json.dumps(request, indent=2))
    assert values(path) == [{"resourceSpans": [each]} for each in request["resourceSpans"]]


def test_a_file_that_ends_too_early_keeps_what_it_has(tmp_path: Path) -> None:
    whole = json.dumps(THINGS, indent=1)
    path = write(tmp_path, whole[: whole.index('"id": 3')])
    assert values(path) == THINGS[:2]
    assert len(errors(path)) >= 1


def test_rows_of_csv_hold_text_in_their_cells(tmp_path: Path) -> None:
    rows = ["id,input,note", '1,"{""a"": [1, 2]}","two\nlines, and a ""quote"""', "", "2,{broken,"]
    text = "\r\n".join([*rows, "3", "4,x,y", ""])
    path = write(tmp_path, text, "rows.csv")
    assert values(path) == [
        {"id": "1", "input": '{"a": [1, 2]}', "note": 'two\nlines, and a "quote"'},
        {"id": "2", "input": "{broken"},
        {"id": "4", "input": "x", "note": "y"},
    ]
    assert [error for _, error in errors(path)] == [
        "the row has 1 cell, but the header has 3 (separated by commas)"
    ]


def test_a_line_beyond_the_limit_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_values, "MAX_VALUE_LENGTH", 100)
    path = write(tmp_path, '{"id": 1}\n{"id": "' + "x" * 300 + '"}\n{"id": 3}\n')
    assert values(path) == [{"id": 1}, {"id": 3}]
    assert errors(path) == [(2, "the line is longer than 100 bytes")]


def test_values_that_are_passed_over_are_counted_as_they_are_read(tmp_path: Path) -> None:
    lines = write(tmp_path, '{"id": 1}\n\nbroken\n{"id": 3}\n{"id": 4}\n')
    assert [unit.value for unit in read_values(lines, 2)] == [{"id": 3}, {"id": 4}]
    listed = write(tmp_path, json.dumps(THINGS), "list.json")
    assert [unit.value for unit in read_values(listed, 2)] == THINGS[2:]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl"):
        list(read_values(tmp_path / "gone.jsonl"))


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_file_is_never_in_memory_as_a_whole(tmp_path: Path, form: str) -> None:
    path = tmp_path / "large.json"
    row = json.dumps({"text": "x" * 100_000})
    with path.open("w") as file:
        file.write("[\n" if form == "list" else "")
        for number in range(1_500):
            file.write(row + (",\n" if form == "list" and number < 1_499 else "\n"))
        file.write("]" if form == "list" else "")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for unit in read_values(path) if not unit.error) == 1_500
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (60_000 if sys.platform == "linux" else 60_000_000)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b'{"id": 1}', b"[", b"]", b"{", b'"'])))
def test_any_bytes_are_read_to_their_end(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(b"\n".join(lines))
    for unit in read_values(path):
        assert unit.line > 0
        assert not (unit.error and unit.value)


@pytest.mark.parametrize(
    "join",
    [
        lambda pages: "".join(json.dumps(page) for page in pages),
        lambda pages: "\n".join(json.dumps(page, indent=2) for page in pages),
        lambda pages: " ".join(json.dumps(page["data"]) for page in pages),
    ],
    ids=["one line", "pretty", "lists"],
)
def test_documents_that_stand_behind_one_another_are_all_read(tmp_path: Path, join: Any) -> None:
    pages = [{"data": [thing], "meta": {"page": n, "x": [1]}} for n, thing in enumerate(THINGS)]
    path = write(tmp_path, join(pages))
    assert values(path) == THINGS
    assert errors(path) == []


def test_further_lists_in_the_object_that_wraps_one_are_read(tmp_path: Path) -> None:
    wrapped = {"traces": THINGS[:1], "users": ["x"], "observations": THINGS[1:]}
    path = write(tmp_path, json.dumps(wrapped))
    assert [unwrapped(value) or [value] for value in values(path)] == [THINGS[:1], THINGS[1:]]
    cut = write(tmp_path, json.dumps(wrapped)[:-30])
    assert values(cut)[0] == THINGS[0]
    assert len(errors(cut)) == 1


def test_a_list_is_found_wherever_it_stands_in_what_wraps_it() -> None:
    assert unwrapped({"next_cursor": None, "data": THINGS}) == THINGS
    assert unwrapped({"data": 1}) == unwrapped([1]) == unwrapped(None) == []


def test_a_data_frame_by_columns_has_rows() -> None:
    frame = {"id": {"0": 1, "1": 2}, "name": {"0": "a", "1": "b"}}
    assert rows_of(frame) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    for other in ({"a": {"0": 1}, "b": {"1": 2}}, {"a": {"x": 1}, "b": {"x": 2}}, {"a": 1}, [], 7):
        assert rows_of(other) == []


def test_what_is_compressed_is_read_as_it_is(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(map(json.dumps, THINGS)).encode())
    assert values(write(tmp_path, packed, "things.jsonl.gz")) == THINGS
    rows = write(tmp_path, gzip.compress(b"id,text\n1,a\n"), "things.csv.gz")
    assert values(rows) == [{"id": "1", "text": "a"}]
    long = gzip.compress(("\n".join([json.dumps(THINGS[0])] * 50_000)).encode())
    cut = write(tmp_path, long[: len(long) // 2], "cut.jsonl.gz")
    assert values(cut)[0] == THINGS[0]
    assert "ends too early" in errors(cut)[-1][1]
    assert "ends too early" in errors(write(tmp_path, b"no", "no.json.gz"))[0][1]


def test_what_follows_a_first_line_beyond_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_values, "MAX_VALUE_LENGTH", 3_000_000)
    lines = [json.dumps({"text": "x" * 5_000_000}), *map(json.dumps, THINGS)]
    path = write(tmp_path, "\n".join(lines))
    assert values(path) == THINGS
    assert len(errors(path)) == 1
