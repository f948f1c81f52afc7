"""Files as other programs write them: read with a word on how, or refused with the place."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ratchet.curate import read_tasks
from ratchet.curate.files import read_dataset_file
from ratchet.curate.importing import read_values
from ratchet.curate.label_file import read_labels
from ratchet.curate.text_file import read_text

TEXTS = {
    "cp1252": ["café crème à Noël", "Où est la gare ? 5 € — très cher", "Grüße aus München"],
    "cp1250": ["Zażółć gęślą jaźń", "Proszę o zwrot pieniędzy za zamówienie, które nie dotarło"],
    "cp1251": ["Где моя посылка? Я жду уже две недели", "Верните деньги, пожалуйста"],
    "shift_jis": ["返金にはどのくらいかかりますか。", "請求書の名前を変更できますか?"],
    "gb18030": ["退款需要多长时间?", "我可以更改发票上的名字吗?请告诉我怎么做。"],
    "utf-16": ["café", "返金"],
    "utf-16-le": ["café", "返金にはどのくらいかかりますか。" * 20],
    "utf-16-be": ["café", "返金にはどのくらいかかりますか。" * 20],
    "utf-32": ["café"],
}


def written(folder: Path, name: str, text: str | bytes, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def json_lines(texts: list[str]) -> str:
    return "".join(json.dumps({"input": text}, ensure_ascii=False) + "\n" for text in texts)


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("short", [False, True])
def test_every_reader_takes_the_encoding_of_the_file_and_says_which(
    tmp_path: Path, encoding: str, short: bool
) -> None:
    texts = TEXTS[encoding][:1] if short else TEXTS[encoding]
    lines = written(tmp_path, "d.jsonl", json_lines(texts), encoding)
    listed = json.dumps([{"input": text} for text in texts], ensure_ascii=False)
    rows = "input\r\n" + "".join(f'"{text}"\r\n' for text in texts)
    found = [read_tasks(lines)]
    for name, text in (("d.jsonl", None), ("d.json", listed), ("d.csv", rows)):
        path = lines if text is None else written(tmp_path, name, text, encoding)
        read = read_dataset_file(path)
        assert [task.input for task in read.tasks] == texts, name
        assert any("The file is" in note for note in read.notes), name
        said: list[str] = []
        values = [unit.value for unit in read_values(path, say=said.append)]
        assert [value["input"] for value in values] == texts, name
        assert len(said) == 1
    assert [task.input for task in found[0].tasks] == texts
    assert len(found[0].notes) == 1


SENTENCES = {
    **TEXTS,
    "cp1252": [
        *TEXTS["cp1252"],
        *("Não é possível, obrigação", "¿Dónde está el baño? Mañana"),
        *("“smart” and it’s fine – really", "naïve", "Müller", "résumé"),  # noqa: RUF001
    ],
    "cp1250": [*TEXTS["cp1250"], "Příliš žluťoučký kůň"],
    "cp1251": [*TEXTS["cp1251"], "Спасибо"],
    "cp1253": ["Πού είναι το δέμα μου;"],
    "euc_kr": ["환불은 얼마나 걸리나요?", "주문이 어디에 있나요"],
    "big5": ["退款需要多長時間?", "我可以更改發票上的名字嗎?"],
}


def test_one_sentence_tells_the_encoding_of_nearly_every_file(tmp_path: Path) -> None:
    told = [
        read_text(written(tmp_path, "d", form % sentence, encoding))[0] == form % sentence
        for encoding, sentences in SENTENCES.items()
        for sentence in sentences
        for form in ('input,expected\n"%s",yes\n', '{"input": "%s"}\n')
    ]
    assert sum(told) >= 0.95 * len(told)


def test_labels_are_read_in_the_encoding_of_their_file(tmp_path: Path) -> None:
    said: list[str] = []
    path = written(
        tmp_path, "l.jsonl", '{"trace_id": "t", "value": 1, "comment": "très bien"}\n', "utf-16"
    )
    (label,) = read_labels(path, "ann", said.append)
    assert (label.comment, said) == ("très bien", ["The file is read as UTF-16-LE."])


def test_a_broken_byte_costs_its_line_and_is_never_replaced(tmp_path: Path) -> None:
    good = '{"input": "é"}\n'.encode()
    path = written(
        tmp_path, "d.jsonl", good + b'{"input": "\xe9"}\n' + good.replace(b"\xa9", b"\xaa")
    )
    assert [task.input for task in read_dataset_file(path).tasks] == ["é", "ê"]
    listed = written(tmp_path, "d.json", b'[{"input": "\xc3\xa9"},\n{"input": "\xe9"}]')
    units = list(read_values(listed))
    assert [unit.value for unit in units] == [{"input": "é"}, None]
    assert units[1].line == 2
    assert "not text" in units[1].error
    odd = written(tmp_path, "u.jsonl", '{"input": "a"}\n{"input": "b"}'.encode("utf-16") + b"\0")
    first, second = read_values(odd)
    assert first.value == {"input": "a"}
    assert "not UTF-8" in second.error


@pytest.mark.parametrize(
    ("head", "delimiter", "name"),
    [
        ("", ";", "d.csv"),
        ("", "\t", "d.csv"),
        ("", "|", "d.csv"),
        ("sep=;\r\n", ";", "d.csv"),
        ("sep=^\r\n", "^", "d.csv"),
        ("", ",", "d.tsv"),
        ("", ";", "d.tsv"),
    ],
)
def test_columns_may_be_separated_otherwise_and_it_is_said(
    tmp_path: Path, head: str, delimiter: str, name: str
) -> None:
    rows = [["id", "input", "expected"], ["1", "Was kostet das, bitte?", "1,50"], ["2", "Où?", "3"]]
    path = tmp_path / name
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(head)
        csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    read = read_dataset_file(path)
    assert [(t.id, t.input, t.expected) for t in read.tasks] == [tuple(row) for row in rows[1:]]
    assert read.bad == ()
    assert "separated by" in read.notes[0]
    said: list[str] = []
    assert [unit.value["input"] for unit in read_values(path, say=said.append)] == [
        row[1] for row in rows[1:]
    ]
    assert "separated by" in said[0]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (r'"say \"hi\"",x', 'at column 6 a quote is written as \\"'),
        ('"a"b,x', "at column 4 text follows a closing quote"),
        ('"a" ,x', "at column 4 text follows a closing quote"),
        ('x,"two\nlines" more', "at line 4, column 7 text follows a closing quote"),
        ("x,y,z", "3 cells, but the header has 2 (separated by commas)"),
    ],
)
def test_a_row_that_reading_would_alter_is_refused_with_its_place(
    tmp_path: Path, row: str, why: str
) -> None:
    path = written(tmp_path, "d.csv", f'input,expected\n5" pipe,y\n{row}\n"last ""one""",z\n')
    read = read_dataset_file(path)
    assert [task.input for task in read.tasks] == ['5" pipe', 'last "one"']
    assert read.bad[0].startswith(f"{path}:3: ")
    assert why in read.bad[0]
    errors = [unit for unit in read_values(path) if unit.error]
    assert errors[0].line == 3
    assert why in errors[0].error


def test_a_quote_that_is_never_closed_is_named_where_it_opens(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", 'input,expected\na,b\nc,"d\ne,f\n')
    read = read_dataset_file(path)
    assert [task.input for task in read.tasks] == ["a"]
    assert read.bad == (f"{path}:3: not CSV: at column 3 a quote is opened but never closed.",)


def test_columns_of_one_name_are_refused_and_those_without_are_named_by_place(
    tmp_path: Path,
) -> None:
    twice = written(tmp_path, "d.csv", "input,expected,Note, input\na,b,c,d\n")
    read = read_dataset_file(twice)
    assert read.tasks == ()
    assert read.bad == (f"{twice}:1: the columns 1 and 4 are both named 'input'.",)
    assert [unit.error for unit in read_values(twice)] == [
        "the columns 1 and 4 are both named 'input'"
    ]
    unnamed = written(tmp_path, "e.csv", ",input,,\n0,a,x,\n")  # pandas, and Excel
    (task,) = read_dataset_file(unnamed).tasks
    assert (task.input, task.metadata) == ("a", {"column 1": "0", "column 3": "x"})


@pytest.mark.parametrize(
    ("name", "text", "line", "place"),
    [
        ("d.jsonl", '{"input": 0}\n{"input": 1, "x": 2, "input": 3}\n', 2, "column 22"),
        ("d.json", '[{"input": 0},\n{"input": {"a": 1,\n "a": 2}},\n{"input": 4}]', 2, "line 2, "),
    ],
)
def test_a_key_that_is_there_twice_is_refused_with_its_place(
    tmp_path: Path, name: str, text: str, line: int, place: str
) -> None:
    path = written(tmp_path, name, text)
    read = read_dataset_file(path)
    assert [task.input for task in read.tasks] == ([0] if name == "d.jsonl" else [0, 4])
    assert len(read.bad) == 1
    assert read.bad[0].startswith(f"{path}:{line}: the key ")
    assert f"occurs again at {place}" in read.bad[0]
    assert [unit.line for unit in read_values(path) if unit.error] == [line]


def test_maps_of_parquet_are_objects_however_deep(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    texts = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    kinds = {
        "input": pyarrow.struct([("q", pyarrow.string()), ("m", texts)]),
        "listed": pyarrow.list_(texts),
        "numbered": pyarrow.map_(pyarrow.int64(), texts),
        "empty": texts,
    }
    row: dict[str, Any] = {
        "input": {"q": "a", "m": [("k", 1)]},
        "listed": [[("k", 1)], []],
        "numbered": [(7, [("k", 1)])],
        "empty": None,
    }
    bad = {**row, "empty": [("k", 1), ("k", 2)]}
    columns = [pyarrow.array([row[name], bad[name]], kind) for name, kind in kinds.items()]
    path = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns, names=list(kinds)), path)
    read = read_dataset_file(path)
    (task,) = read.tasks
    assert task.input == {"q": "a", "m": {"k": 1}}
    assert task.metadata == {"listed": [{"k": 1}, {}], "numbered": {"7": {"k": 1}}, "empty": None}
    assert read.bad == (f"{path}:2: it holds a map with a duplicate key.",)
    pyarrow.parquet.write_table(
        pyarrow.Table.from_arrays([columns[0], columns[0]], names=["input", "input"]), path
    )
    assert read_dataset_file(path).bad == (f"{path}:1: two columns are named 'input'.",)


@pytest.mark.parametrize(
    "column", ["expectedOutput", "expected_output", "answer", "gold", "target", "Ground Truth"]
)
def test_a_file_without_answers_names_the_columns_that_look_like_one(
    tmp_path: Path, column: str
) -> None:
    rows = [{"query" if n else "input": n, column: "x"} for n in (0, 1)]
    path = written(tmp_path, "d.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    read = read_dataset_file(path)
    assert read.notes == (f"1 task, none with an answer; columns that look like one: {column}.",)
    assert "columns that look like one: query" in read.bad[0]
    (note,) = read_tasks(path, skip_bad=True).notes
    assert f"columns that look like one: {column}." in note
    assert read_dataset_file(path, fields={"expected": column}).notes == ()


def test_a_task_file_may_be_packed_and_a_cut_one_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(json_lines([f"question {n}" for n in range(9999)]).encode())
    assert len(read_tasks(written(tmp_path, "t.jsonl.gz", packed)).tasks) == 9999
    with pytest.raises(Exception, match="ends too early or is broken"):
        read_tasks(written(tmp_path, "t.jsonl.gz", packed[:-200]))
