"""Datasets are written to files and read back equal; what is bad in a file is named."""

from __future__ import annotations

import builtins
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.curate.files import FORMATS, read_dataset_file, write_dataset_file
from ratchet.types import SPLITS, Dataset, InputError, Origin, Task

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
origins = st.builds(
    Origin,
    st.sampled_from(["captured", "synthesized", "curated"]),
    texts,
    st.lists(texts, max_size=2).map(tuple),
    st.floats(0, 2e9),
)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    # All of one kind, or mixed: columns are text, or JSON.
    inputs = draw(st.sampled_from([texts, values]))
    tasks = tuple(
        Task(
            f"t{n}",
            draw(inputs),
            draw(inputs | st.none()),
            draw(st.dictionaries(texts.filter(lambda key: key != "metadata"), values, max_size=2)),
            draw(origins),
        )
        for n in range(draw(st.integers(1, 4)))
    )
    return Dataset("d", tasks, {task.id: draw(st.sampled_from(SPLITS)) for task in tasks})


def path_of(folder: Path, format: str) -> Path:
    return folder / f"d{(FORMATS[format].endings or ('',))[0]}"


@pytest.mark.parametrize("format", FORMATS)
@given(dataset=datasets())
def test_what_is_written_is_read_back_equal(
    format: str, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = path_of(tmp_path_factory.mktemp("files"), format)
    for _ in range(2):  # the second one replaces the first
        write_dataset_file(dataset, path, format)
    read = read_dataset_file(path, format)
    assert read.bad == ()
    assert read.tasks == dataset.tasks
    assert read.splits == dataset.splits
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def lines(path: Path, *values: Any) -> Path:
    raw = [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def test_bad_records_are_named_by_line_and_the_others_read(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "d.jsonl",
        '{"id": "a", "input": "é"}'.encode(),
        b'{"id": "b", "input": "caf\xe9"}',
        b'{"id": "c", ',
        [1, 2],
        {"question": "no input"},
        {"id": "a", "input": "again"},
        {"id": "e", "input": "y", "origin": {"made": "guessed"}},
        b"",
        {"id": "f", "input": {"q": 1}, "expected": ["z"], "split": "Validation", "extra": 5},
    )
    read = read_dataset_file(path)
    assert [task.id for task in read.tasks] == ["a", "f"]
    assert read.tasks[1] == Task("f", {"q": 1}, ["z"], {"extra": 5}, Origin(by="import"))
    assert read.splits == {"f": "val"}
    assert [each.removeprefix(f"{path}:").partition(":")[0] for each in read.bad] == list("234567")
    for at, why in enumerate(
        (
            "not UTF-8",
            "not JSON",
            "not an object",
            "no 'input'",
            "already on line 1",
            "origin is not",
        )
    ):
        assert why in read.bad[at]


def test_rows_of_csv_from_elsewhere_are_tasks_of_text(tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerows([["question", "answer", "topic"], ["How\nmuch?", "42", "price"]])
        rows.writerows([["Où?", "", ""], ["one cell"]])
    with path.open("ab") as raw:
        raw.write("Où?,là,\n".encode("latin-1"))
    read = read_dataset_file(path, fields={"input": "question", "expected": "answer"})
    assert [(t.input, t.expected, t.metadata) for t in read.tasks] == [
        ("How\nmuch?", "42", {"topic": "price"}),
        ("Où?", None, {}),
    ]
    assert read.bad == (
        f"{path}:5: the row has 1 cell, but the header has 3 (separated by commas).",
        f"{path}:6: the row contains bytes that are not text in the file's encoding.",
    )


def test_columns_of_parquet_from_elsewhere_become_metadata(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"input": ["a", "b"], "label": [1, None], "at": [None, None], "raw": [None, b"x"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "d.parquet")
    read = read_dataset_file(tmp_path / "d.parquet")
    assert [(t.input, t.metadata) for t in read.tasks] == [
        ("a", {"label": 1, "at": None, "raw": None})
    ]
    assert read.bad == (
        f"{tmp_path / 'd.parquet'}:2: it holds bytes, such as an image or a sound.",
    )


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").write_bytes(b"no columns here, only text")
    with pytest.raises(InputError, match=r"d\.parquet is not a Parquet file"):
        read_dataset_file(tmp_path / "d.parquet")


def test_what_save_to_disk_writes_is_read(tmp_path: Path) -> None:
    """The layout of `datasets.DatasetDict.save_to_disk`, made by hand."""
    import pyarrow

    root = tmp_path / "saved"
    for split, questions in (("train", ["a", "b"]), ("validation", ["c"])):
        (root / split).mkdir(parents=True)
        table = pyarrow.table({"question": questions, "answers": [["x"]] * len(questions)})
        name = "data-00000-of-00001.arrow"
        with pyarrow.ipc.new_stream(str(root / split / name), table.schema) as writer:
            writer.write_table(table)
        state = {"_data_files": [{"filename": name}]}
        (root / split / "state.json").write_text(json.dumps(state))
    (root / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation"]}))
    read = read_dataset_file(root, fields={"input": "question", "expected": "answers"})
    assert [(t.input, t.expected) for t in read.tasks] == [("a", ["x"]), ("b", ["x"]), ("c", ["x"])]
    assert list(read.splits.values()) == ["train", "train", "val"]


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for format in ("parquet", "huggingface"):
        with pytest.raises(InputError, match="need pyarrow") as error:
            write_dataset_file(Dataset("d", (), {}), tmp_path / "d", format)
        assert "agent-ratchet[parquet]" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("precious")
    bad = Dataset("d", (Task("a", float("nan")),), {"a": "train"})
    with pytest.raises(ValueError, match="JSON"):
        write_dataset_file(bad, path)
    assert path.read_text() == "precious"
    assert [each.name for each in tmp_path.iterdir()] == ["d.jsonl"]


def test_an_unknown_ending_and_an_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not name a format"):
        read_dataset_file(tmp_path / "d.xyz")
    with pytest.raises(InputError, match="no format 'excel'"):
        read_dataset_file(tmp_path / "d.xyz", "excel")
    with pytest.raises(InputError, match="cannot be read"):
        read_dataset_file(tmp_path / "missing.jsonl")
