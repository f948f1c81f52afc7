"""Any value comes back: the patched file, imported again, says exactly what the candidate says."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ratchet.bind import registry
from ratchet.ship import make_patch
from ratchet.types import Candidate, Params, PromptTemplate, defaults
from ratchet.types.knobs import Choice, Float, Int

NASTY = st.text(
    st.one_of(
        st.sampled_from(list("\"'\\{}\n\r\t \x00\x0c\x1b\u2028\u202e\u00e9\U0001f511#rbNx")),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)
QUIET = settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

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
