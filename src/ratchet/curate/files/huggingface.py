"""Datasets in the folders of Hugging Face `datasets`.

Written is the layout of the Hub: one Parquet file per split, and a README.md that lists them, which
`datasets.load_dataset("FOLDER")` reads. Read is that layout, and what `save_to_disk` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.curate.files.parquet import pyarrow, rows_of
from ratchet.curate.files.parquet import read as read_parquet
from ratchet.curate.files.parquet import write as write_parquet
from ratchet.types import SPLITS, InputError

_POSITION = "position"
"""Column with a task's position in the dataset: the tasks are divided among files."""


def write(records: Iterable[dict[str, Any]], path: Path) -> None:
    """Write a folder."""
    pyarrow()
    listed = list(records)
    (path / "data").mkdir(parents=True)
    files = []
    for split in SPLITS:
        own = [(at, record) for at, record in enumerate(listed) if record["split"] == split]
        if own:
            name = f"data/{split}-00000-of-00001.parquet"
            write_parquet((record for _, record in own), path / name)
            _add_positions(path / name, [at for at, _ in own])
            files.append((split, name))
    lines = [f"  - split: {split}\n    path: {name}\n" for split, name in files]
    (path / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n" + "".join(lines) + "---\n"
    )


def _add_positions(path: Path, positions: list[int]) -> None:
    arrow = pyarrow()
    table = arrow.parquet.read_table(path)
    table = table.append_column(_POSITION, arrow.array(positions, arrow.int64()))
    arrow.parquet.write_table(table, path, compression="zstd")


def read(path: Path, _: object = None) -> Iterator[tuple[int, Any, str]]:
    """Read a folder; records without a split get their file's."""
    if not path.is_dir():
        raise InputError(
            f"{path} is not a folder of Hugging Face datasets.",
            hint="Name the folder that save_to_disk wrote, or a clone of a dataset's repository.",
        )
    records = list(_all(path))
    placed = [isinstance(value, dict) and value.get(_POSITION) for _, value, _ in records]
    if records and all(isinstance(at, int) and not isinstance(at, bool) for at in placed):
        records.sort(key=lambda record: record[1][_POSITION])
        for _, value, _ in records:
            del value[_POSITION]
    yield from records


def _all(path: Path) -> Iterator[tuple[int, Any, str]]:
    number = 0
    for file, split in _files(path):
        rows = read_parquet(file) if file.suffix == ".parquet" else _read_arrow(file)
        for _, value, error in rows:
            number += 1
            if isinstance(value, dict) and split:
                value.setdefault("split", split)
            yield number, value, error


def _files(path: Path) -> list[tuple[Path, str]]:
    """Data files and the name of the split of each; empty when there is none."""
    saved = path / "dataset_dict.json"
    if saved.is_file():
        names = json.loads(saved.read_bytes())["splits"]
        return [(file, name) for name in names for file in _arrow_files(path / name)]
    if (path / "state.json").is_file():
        return [(file, "") for file in _arrow_files(path)]
    files = sorted(path.glob("**/*.parquet"))
    if not files:
        raise InputError(
            f"{path} contains no dataset.",
            hint="Expected the Hub's Parquet files, or what save_to_disk wrote.",
        )
    return [(file, file.name.partition("-")[0].partition(".")[0]) for file in files]


def _arrow_files(path: Path) -> list[Path]:
    state = json.loads((path / "state.json").read_bytes())
    return [path / file["filename"] for file in state["_data_files"]]


def _read_arrow(path: Path) -> Iterator[tuple[int, Any, str]]:
    arrow = pyarrow()
    try:
        with arrow.memory_map(str(path)) as source:
            yield from rows_of(arrow.ipc.open_stream(source), 0)
    except arrow.ArrowException as error:
        raise InputError(f"{path} is not an Arrow file: {error}.") from None
