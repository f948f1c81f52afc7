"""Any value comes back: the patched file, imported again, says exactly what the candidate says."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ratchet.bind import registry
from ratchet.ship import make_patch
from ratchet.types import Candidate, Declaration, Params, PromptTemplate, defaults
from ratchet.types.knobs import Choice, Float, Int

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

NASTY = st.text(
    st.one_of(
        st.sampled_from(list("\"'\\{}\n\r\t \x00\x0c\x1b\u2028\u202e\u00e9\U0001f511#rbNx")),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)
QUIET = settings(max_examples=300 if LONG else 10)

FORMS = [
    'ratchet.prompt("p", "ä")',
    "ratchet.prompt('p', 'ä')",
    'ratchet.prompt("p", """\nä\n  b""")',
    "ratchet.prompt('p', r'''ä\n\\d''')",
    'ratchet.prompt("p", "ä"\n    "b\\n"\n    \'c\')',
    'ratchet.prompt("p", "ä" \\\n    "b")',
    'ratchet.prompt("p", ("ä" + "b"))',
    'ratchet.prompt("p", textwrap.dedent("""\\\n        ä\n          b\n    """))',
    'ratchet.prompt("p", inspect.cleandoc("""ä\n        b\n    """))',
    'ratchet.prompt("p", """\n    ä\n""".strip())',
    'ratchet.prompt("p", TEXT)',
]


def reread(data: bytes) -> dict[str, Any]:
    registry.forget()
    exec(compile(data, "<patched>", "exec"), {"__name__": "agent"})
    try:
        return {name: d.resource for name, d in registry.declarations().items()}
    finally:
        registry.forget()


def check(source: bytes, change: Callable[[Candidate], Candidate]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.py"
        path.write_bytes(source)
        registry.forget()
        exec(compile(source, str(path), "exec"), {"__name__": "agent"})
        declarations = registry.declarations()
        baseline = Candidate.of(defaults(declarations))
        candidate = change(baseline)
        if candidate.id == baseline.id:
            return
        patch = make_patch(baseline, candidate, declarations, Path(folder))
    old, new = patch.files["agent.py"]
    assert old == source
    assert reread(new) == candidate.resources
    rebuilt, position = b"", 0
    for edit in sorted(patch.edits, key=lambda e: e.span):
        rebuilt += old[position : edit.span[0]] + edit.new
        position = edit.span[1]
    assert rebuilt + old[position:] == new


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("form", FORMS)
@QUIET
@given(text=NASTY)
@example('""""')
@example("a\\")
@example("\\\n'''\"\"\"\\")
@example("  indented\n\n  text\n")
@example("trailing \n\ttab\r\nreturn")
@example("\\N{DASH}\\x41\\101")
def test_any_prompt_comes_back(form: str, newline: str, text: str) -> None:
    head = 'import inspect, ratchet, textwrap\nTEXT = (\n    "ä"\n)\nbefore = "é" ; P = '
    tail = ' ; after = "é"\n# ende\n'
    source = (head + form + tail).replace("\n", newline).encode()
    # Doubled, any brace is literal text in a template.
    doubled = text.replace("{", "{{").replace("}", "}}")

    def change(baseline: Candidate) -> Candidate:
        return baseline.derive({"p": PromptTemplate(doubled)}, algorithm="t")

    check(source, change)


@QUIET
@given(
    k=st.integers(-(10**30), 10**30),
    w=st.floats(allow_nan=False, allow_infinity=False),
    option=NASTY,
    other=st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_any_knob_values_come_back(k: int, w: float, option: str, other: Any) -> None:
    largest = sys.float_info.max
    space = {"k": Int(0, -(10**30), 10**30), "w": Float(0.5, -largest, largest)}
    options: tuple[Any, ...] = ("none", option) if option != "none" else ("none",)
    choices = (0.25,) if isinstance(other, float) and other == 0.25 else (0.25, other)
    full = {**space, "c": Choice("none", options), "m": Choice(0.25, choices)}
    source = (
        "import ratchet\nR = ratchet.params('r', k=ratchet.Int(0, -10**30, 10**30),\n"
        f"  w=ratchet.Float(0.5, -{largest!r}, {largest!r}),  # é\n"
        f"  c=ratchet.Choice('none', {options!a}), m=ratchet.Choice(0.25, {choices!r}))\n"
    ).encode()
    values = {"k": k, "w": w, "c": option, "m": other}

    def change(baseline: Candidate) -> Candidate:
        return baseline.derive({"r": Params(full, values)}, algorithm="t")

    def compare(candidate: dict[str, Any]) -> dict[str, Any]:
        return {name: r.values for name, r in candidate.items()}

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.py"
        path.write_bytes(source)
        registry.forget()
        exec(compile(source, str(path), "exec"), {"__name__": "agent"})
        declarations = registry.declarations()
        baseline = Candidate.of(defaults(declarations))
        candidate = change(baseline)
        if candidate.id == baseline.id:
            return
        patch = make_patch(baseline, candidate, declarations, Path(folder))
    assert repr(compare(reread(patch.files["agent.py"][1]))) == repr(compare(candidate.resources))


FOUND = {
    "an f-string": {"agent.py": 'P = ratchet.prompt("p", f"In {CITY} you plan long walks. {{{{")'},
    "adjacent f-strings": {
        "agent.py": 'P = ratchet.prompt("p", f"In {CITY} \\n"\n "you "\n  \'plan walks. {{{{\')'
    },
    "a joined list": {
        "agent.py": 'P = ratchet.prompt("p", "\\n".join(["In Vienna", \'you\', "plan walks."]))'
    },
    "a list in another file": {
        "texts.py": "TEXTS = ['''In Vienna\n you plan \\\n long walks.''']\n",
        "agent.py": 'P = ratchet.prompt("p", __import__("texts").TEXTS[0])',
    },
    "a text file": {
        "p.md": "In Vienna\nyou plan long walks.\n",
        "agent.py": 'P = ratchet.prompt("p", Path("p.md").read_text())',
    },
    "a text file that is stripped": {
        "p.txt": "\n\nIn Vienna\nyou plan long walks.\n",
        "agent.py": 'P = ratchet.prompt("p", Path("p.txt").read_text().strip())',
    },
    "a block of YAML": {
        "p.yaml": "a: é\nb:\n- t: |\n    In Vienna\n      you plan walks.\n  c: 'é'\n",
        "agent.py": 'P = ratchet.prompt("p", yaml.safe_load(open("p.yaml"))["b"][0]["t"])',
    },
    "a folded block of YAML": {
        "p.yaml": "a: é\nb: >-\n  In Vienna\n  you plan walks.\n\n  So.\nc: é\n",
        "agent.py": 'P = ratchet.prompt("p", yaml.safe_load(open("p.yaml"))["b"])',
    },
    "a plain scalar of YAML": {
        "p.yaml": "{a: é, b: In Vienna you plan walks., c: In Vienna you plan walks.}\n",
        "agent.py": 'P = ratchet.prompt("p", yaml.safe_load(open("p.yaml"))["c"])',
    },
    "TOML": {
        "p.toml": "a = \"é\"\n[b]\nt = '''\nIn Vienna\nyou plan walks.''' # é\n",
        "agent.py": 'P = ratchet.prompt("p", tomllib.loads(open("p.toml").read())["b"]["t"])',
    },
    "JSON": {
        "p.json": '{"a": ["é", {"t": "In Vienna\\nyou plan walks."}], "t": "é"}',
        "agent.py": 'P = ratchet.prompt("p", json.load(open("p.json"))["a"][1]["t"])',
    },
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a folder for each way to get a prompt's text."""
    root = tmp_path_factory.mktemp("found")
    head = "import json, ratchet, tomllib, yaml\nfrom pathlib import Path\nCITY = 'Vienna'\n"
    for number, files in enumerate(FOUND.values()):
        folder = root / str(number)
        folder.mkdir()
        for path, text in files.items():
            program = f"{head}{text}\n# é\n"
            (folder / path).write_text(program if path == "agent.py" else text)
    for command in (
        "init --quiet",
        "add --all",
        "-c user.name=Ada -c user.email=ada@example.org commit --quiet --message first",
    ):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


@pytest.mark.parametrize("form", FOUND)
@settings(QUIET, max_examples=6)
@given(before=NASTY, after=NASTY)
@example(before="", after="\n\n  # x: 'y' \"z\"\n-")
@example(before="\\{{{", after="}\\")
def test_any_prompt_comes_back_where_it_was_found(
    form: str, found: Path, before: str, after: str
) -> None:
    root = found / str(list(FOUND).index(form))
    # The city comes from the program. Reading a file may change returns.
    text = re.sub("\r", "", f"So: {before} Vienna {after} end.")
    if form.startswith("a text file"):
        text = text.replace("\0", "")
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        declarations = run_agent(root, patched)
        baseline = Candidate.of(defaults(declarations))
        old_text = declarations["p"].resource
        assert isinstance(old_text, PromptTemplate)
        text += old_text.text[len(old_text.text.rstrip()) :]
        new = PromptTemplate(text.replace("{", "{{").replace("}", "}}"))
        candidate = baseline.derive({"p": new}, algorithm="t")
        patch = make_patch(baseline, candidate, declarations, root)
        ((path, (old, written)),) = patch.files.items()
        (edit,) = patch.edits
        assert written == old[: edit.span[0]] + edit.new + old[edit.span[1] :]
        for file in FOUND[form]:
            data = written if file == path else (root / file).read_bytes()
            (Path(folder) / file).write_bytes(data)
        assert run_agent(Path(folder), patched)["p"].resource == new


def run_agent(folder: Path, patched: pytest.MonkeyPatch) -> dict[str, Declaration]:
    """Run the agent of a folder and return what it declares."""
    registry.forget()
    linecache.clearcache()
    path = folder / "agent.py"
    patched.chdir(folder)
    patched.syspath_prepend(folder)
    patched.setattr(sys, "dont_write_bytecode", True)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), {"__name__": "agent"})
        return registry.declarations()
    finally:
        registry.forget()
        sys.modules.pop("texts", None)


KNOB_FILES = {
    "yaml": "# é\nk: 5\nw: 0.5  # 0.5\nm: {c: none, t: [5, none, 0.5]}\n",
    "toml": "k = 5\nw = 5e-1 # é\n[m]\nc = 'none'\nt = [5, 'none', 0.5]\n",
    "json": '{"k": 5, "w": 0.5, "m": {"c": "none", "t": [5, "none", 0.5]}}',
}
LOADS = {"yaml": "yaml.safe_load", "toml": "tomllib.loads", "json": "json.loads"}


@pytest.mark.parametrize("form", KNOB_FILES)
@QUIET
@given(
    k=st.integers(-(2**63), 2**63 - 1),
    w=st.floats(allow_nan=False, allow_infinity=False),
    option=NASTY.map(lambda text: text.replace("\r", "")),
)
@example(k=0, w=1e-05, option="yes")
@example(k=1, w=-0.0, option="0x10: - {a}")
@example(k=5, w=1e22, option="")
def test_any_knob_values_come_back_from_a_file(form: str, k: int, w: float, option: str) -> None:
    options = ["none", *({option} - {"none"})]
    source = (
        "import json, ratchet, tomllib, yaml\n"
        f"C = {LOADS[form]}(open('c.{form}').read())\n"
        f"R = ratchet.params('r', k=ratchet.Int(C['k'], -2**63, 2**63),\n"
        f"  w=ratchet.Float(C['w'], -{sys.float_info.max!r}, {sys.float_info.max!r}),\n"
        f"  c=ratchet.Choice(C['m']['c'], {options!a}))\n"
    )
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "agent.py").write_text(source)
        (root / f"c.{form}").write_text(KNOB_FILES[form])
        declarations = run_agent(root, patched)
        baseline = Candidate.of(defaults(declarations))
        old = baseline.resources["r"]
        assert isinstance(old, Params)
        new = old.replace(k=k, w=w, c=option if option in options else "none")
        candidate = baseline.derive({"r": new}, algorithm="t")
        if candidate.id == baseline.id:
            return
        patch = make_patch(baseline, candidate, declarations, root)
        (root / f"c.{form}").write_bytes(patch.files[f"c.{form}"][1])
        found = run_agent(root, patched)["r"].resource
        assert isinstance(found, Params)
        assert repr(found.values) == repr(new.values)
