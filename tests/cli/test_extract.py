"""`ratchet extract`: a function staged with what it needs, that runs alone."""

# ruff: noqa: E501 - sources of small repositories, in strings

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import interpreters

FILES = {
    "src/shop/__init__.py": "",
    "src/shop/prices.py": '''
import csv
from pathlib import Path

import ratchet
import sqlite3
from openai import OpenAI
import msgspec

from shop import taxes

CLIENT = OpenAI(api_key="sk-none")
db = sqlite3.connect("shop.db")
HERE = Path(__file__).parent
KNOWN = {}
# Rounding is by the law.
DIGITS = 2


def table():
    with open(HERE / "data" / "prices.csv") as file:
        return {row["what"]: float(row["price"]) for row in csv.DictReader(file)}


@ratchet.evolve(name="price")
def price(what: str, count: int = 1) -> float:
    """What so many cost."""
    return round(table()[what] * count * taxes.factor(), DIGITS)


@ratchet.evolve
def described(what: str) -> str:
    return CLIENT.responses.create(model="m", input=what).output_text


class Till:
    def __init__(self, start: float) -> None:
        self.start = start

    @ratchet.evolve(name="pay")
    @staticmethod
    def pay(x: float) -> bytes:
        return msgspec.json.encode(x)

    @ratchet.evolve(name="given")
    async def given(self, x: float) -> float:
        return self.start + x
''',
    "src/shop/taxes.py": "RATE = 0.5\n\ndef factor():\n    return 1 + RATE\n\ndef spare():\n    return 0\n",
    "src/shop/data/prices.csv": "what,price\nbread,2\n",
    "src/shop/data/.env": "KEY=secret\n",
    "tasks.jsonl": '{"input": "bread", "expected": "secret"}\n',
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def extract(root: Path, *arguments: str, code: int = 0) -> Any:
    """What the command prints as JSON, or its error."""
    done = interpreters.run(
        [sys.executable, "-m", "ratchet", "extract", *arguments, "--json"],
        cwd=root,
        env={**os.environ, "COLUMNS": "200"},
        timeout=120,
    )
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout) if done.stdout else done.stderr


def run(folder: Path, *cases: dict[str, Any]) -> list[Any]:
    """Values or errors of the staged function."""
    done = subprocess.run(
        [sys.executable, "-P", "run.py", "--case", "-"],
        cwd=folder,
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return [one.get("value", one.get("error")) for one in said]


def test_a_function_runs_alone_with_what_it_needs(shop: Path, tmp_path: Path) -> None:
    staged = extract(shop, "price", "--out", str(tmp_path / "out"))["targets"][0]
    out = Path(staged["folder"])
    for file in (shop / "src").rglob("*.py"):
        file.unlink()
    assert staged["loads"] is True
    assert staged["files"] == ["src/shop/__init__.py", "src/shop/prices.py", "src/shop/taxes.py"]
    assert staged["data"] == ["src/shop/data/prices.csv"]
    assert (staged["packages"], staged["left_out"]) == ({}, [])
    text = (out / "src/shop/prices.py").read_text()
    assert "# Rounding is by the law.\nDIGITS = 2" in text
    assert "ratchet" not in text
    assert "CLIENT" not in text
    assert "spare" not in (out / "src/shop/taxes.py").read_text()
    assert run(out, {"args": ["bread"], "kwargs": {"count": 2}}, {"args": ["tea"]}) == [
        6.0,
        "KeyError: 'tea' (prices.py:16)",
    ]


def test_what_cannot_be_staged_is_left_out_and_says_so(shop: Path, tmp_path: Path) -> None:
    staged = extract(shop, "described", "--out", str(tmp_path / "out"))["targets"][0]
    assert staged["left_out"] == [
        {
            "what": "CLIENT = OpenAI(api_key='sk-none') (src/shop/prices.py)",
            "why": "a service client, openai.OpenAI(…)",
        }
    ]
    assert staged["loads"] is True
    assert "CLIENT was not staged" in run(Path(staged["folder"]), {"args": ["x"]})[0]


def test_all_that_evolve_are_staged_each_in_its_folder(shop: Path) -> None:
    targets = {one["name"]: one for one in extract(shop)["targets"]}
    assert set(targets) == {"price", "described", "pay", "given"}
    assert set(targets["pay"]["packages"]) == {"msgspec"}
    required = (Path(targets["pay"]["folder"]) / "requirements.txt").read_text()
    assert required.startswith("msgspec==")
    assert run(Path(targets["pay"]["folder"]), {"args": [1.5]}) == ["b'1.5'"]
    given = {"init": {"args": [2.0]}, "args": [3.0]}
    assert run(Path(targets["given"]["folder"]), given) == [5.0]


def test_secrets_and_answers_are_never_staged(shop: Path, tmp_path: Path) -> None:
    source = shop / "src/shop/prices.py"
    text = source.read_text().replace(
        "DIGITS = 2", 'DIGITS = 2\nEXTRA = [HERE / "data" / ".env", "tasks.jsonl", DIGITS]'
    )
    source.write_text(text.replace("taxes.factor(), DIGITS", "taxes.factor(), EXTRA[2]"))
    staged = extract(shop, "price", "--out", str(tmp_path / "out"))["targets"][0]
    assert [one["why"] for one in staged["left_out"]] == [
        "it may hold secrets",
        "it holds the tasks' expected answers",
    ]
    kept = [p.name for p in Path(staged["folder"]).rglob("*") if p.is_file()]
    assert "tasks.jsonl" not in kept
    assert ".env" not in kept


def test_a_folder_with_something_else_is_left_alone(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    said = extract(shop, "price", "--out", str(tmp_path), code=2)
    assert "contains files that Ratchet did not put there" in said
    assert (tmp_path / "mine").read_text() == "x"


def test_what_does_not_load_alone_is_told(shop: Path, tmp_path: Path) -> None:
    (shop / "broken.py").write_text(
        "import no_such_package\n\ndef f():\n    return no_such_package.x\n"
    )
    staged = extract(shop, "broken:f", "--out", str(tmp_path / "out"), code=1)["targets"][0]
    assert staged["loads"] is False
    assert "No module named 'no_such_package'" in staged["fault"]
    assert staged["left_out"] == [
        {
            "what": "the package no_such_package",
            "why": "it is neither part of this repository nor installed",
        }
    ]
