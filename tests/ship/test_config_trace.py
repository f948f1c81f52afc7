"""Which file and keys an expression reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ratchet.ship.config_trace import trace
from ratchet.ship.source_file import read_source

HEAD = """\
import io, json, os, pathlib, tomllib, yaml
from os.path import dirname, join
from pathlib import Path
HERE = dirname(__file__)
ROOT = Path(__file__).resolve().parents[1]
NAME = "c.yaml"
DATA = yaml.safe_load((ROOT / NAME).read_text())
def load():
    with open(join(HERE, "c.json"), "rb") as file:
        data = json.load(file)
    return data
def other(name):
    return DATA
LOOP = LOOP2
LOOP2 = LOOP
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in ("c.yaml", "bot/c.json", "bot/p.md", "twice.yaml", "bot/twice.yaml"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    return tmp_path


def traced(root: Path, expression: str) -> tuple[str, str, tuple[str | int, ...], bool] | None:
    source = read_source(f"{HEAD}X = {expression}\n".encode(), "bot/agent.py")
    statement = source.tree.body[-1]
    assert isinstance(statement, ast.Assign)
    found = trace(source, statement.value, root)
    if found is None:
        return None
    return found.file.relative_to(root).as_posix(), found.format, found.keys, found.stripped


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ('DATA["a"][0]["b"]', ("c.yaml", "yaml", ("a", 0, "b"), False)),
        ('DATA.get("a")', ("c.yaml", "yaml", ("a",), False)),
        ('load()["k"]', ("bot/c.json", "json", ("k",), False)),
        ('Path("p.md").read_text().strip()', ("bot/p.md", "", (), True)),
        ('open(Path(HERE) / "p.md").read()', ("bot/p.md", "", (), False)),
        ('ROOT.joinpath("bot", "p.md").read_text("utf-8")', ("bot/p.md", "", (), False)),
        ('pathlib.Path(__file__).with_name("p.md").open().read()', ("bot/p.md", "", (), False)),
        (
            'json.load(open(os.path.join(HERE, "c.json")))["k"]',
            ("bot/c.json", "json", ("k",), False),
        ),
        (
            'yaml.load(open(str(ROOT / "c.yaml")), Loader=None)["k"]',
            ("c.yaml", "yaml", ("k",), False),
        ),
        ('yaml.safe_load(open("c.yaml"))["a"].strip()', ("c.yaml", "yaml", ("a",), True)),
        # What is not certain.
        ('yaml.safe_load(open("twice.yaml"))["a"]', None),
        ('yaml.safe_load(open("none.yaml"))["a"]', None),
        ('yaml.safe_load(open("/etc/passwd\\0"))["a"]', None),
        (f'open("{"x" * 5000}").read()', None),
        ('DATA["a"] + 1', None),
        ('DATA["a"].strip()["b"]', None),
        ('DATA.get("a", 5)', None),
        ("DATA[True]", None),
        ("DATA[NAME]", None),
        ('other("x")["k"]', None),
        ('LOOP["k"]', None),
        ('os.environ["k"]', None),
        ('json.loads("{}")["k"]', None),
        ("open(input()).read()", None),
    ],
)
def test_only_what_is_certain_is_traced(root: Path, expression: str, found: object) -> None:
    assert traced(root, expression) == found


def test_a_name_that_is_assigned_twice_is_not_followed(root: Path) -> None:
    source = read_source(
        f"{HEAD}if HERE:\n    DATA = {{}}\nX = DATA['a']\n".encode(), "bot/agent.py"
    )
    statement = source.tree.body[-1]
    assert isinstance(statement, ast.Assign)
    assert trace(source, statement.value, root) is None
