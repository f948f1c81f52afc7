"""The patch: the smallest edit of each form of declaration, and a clear no to the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.ship import make_patch
from ratchet.types import Candidate, Code, Declaration, Model, Params, PromptTemplate, ShipError
from ratchet.types.knobs import Int

Make = Callable[..., Any]

KNOBS = """\
import ratchet as rt
from ratchet import Choice, params

KNOBS = params(
    "retrieval",
    k=rt.Int(5, 1, 20),  # five is plenty
    threshold=0.3,
    ngram=Choice("none", ["none", "char3"]),
    on=rt.Bool(default=False),
    w=rt.Float(1, -10.0, 10.0),
)
"""


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ({"k": 12}, "rt.Int(5,", "rt.Int(12,"),
        ({"threshold": 0.7}, "threshold=0.3", "threshold=0.7"),
        ({"ngram": "char3"}, 'Choice("none",', 'Choice("char3",'),
        ({"on": True}, "default=False", "default=True"),
        ({"w": -2.5}, "rt.Float(1,", "rt.Float(-2.5,"),
        ({"w": 2.0}, "rt.Float(1,", "rt.Float(2.0,"),
        ({"w": 0.1 + 0.2}, "rt.Float(1,", "rt.Float(0.30000000000000004,"),
    ],
)
def test_of_params_only_the_changed_literal_is_edited(
    make_project: Make, change: dict[str, Any], old: str, new: str
) -> None:
    project = make_project(KNOBS)
    assert project.patched(retrieval=change).decode() == KNOBS.replace(old, new)


def test_several_knobs_change_at_once(make_project: Make) -> None:
    project = make_project(KNOBS)
    patch = make_patch(
        project.baseline,
        project.candidate(retrieval={"k": 1, "on": True}),
        project.declarations,
        project.root,
    )
    assert [(e.key, e.before, e.after) for e in patch.edits] == [("k", 5, 1), ("on", False, True)]
    assert patch.diff() == (
        "--- a/agent.py\n+++ b/agent.py\n@@ -3,9 +3,9 @@\n \n KNOBS = params(\n"
        '     "retrieval",\n-    k=rt.Int(5, 1, 20),  # five is plenty\n'
        "+    k=rt.Int(1, 1, 20),  # five is plenty\n     threshold=0.3,\n"
        '     ngram=Choice("none", ["none", "char3"]),\n-    on=rt.Bool(default=False),\n'
        "+    on=rt.Bool(default=True),\n     w=rt.Float(1, -10.0, 10.0),\n )\n"
    )


PROMPTS = {
    "plain": ('ratchet.prompt("p", "Be kind.")', "Be brief.", 'ratchet.prompt("p", "Be brief.")'),
    "single quotes": ("ratchet.prompt('p', 'a')", "it's", "ratchet.prompt('p', 'it\\'s')"),
    "keywords": ('prompt(name="p", default="a")', "b", 'prompt(name="p", default="b")'),
    "engine": (
        'ratchet.prompt("p", "{{ a }}", engine="jinja2")',
        "{{ b }}",
        'ratchet.prompt("p", "{{ b }}", engine="jinja2")',
    ),
    "triple": ('prompt("p", """a\nb\n""")', 'a\n"""c"""\n', 'prompt("p", """a\n""\\"c""\\"\n""")'),
    "continued": ('prompt("p", """\\\na\nb""")', "a\nc", 'prompt("p", """\\\na\nc""")'),
    "becomes several lines": ('prompt("p", "a")', "a\nb", 'prompt("p", """a\nb""")'),
    "raw": ('prompt("p", r"\\d")', "\\w", 'prompt("p", r"\\w")'),
    "raw no more": ('prompt("p", r"\\d")', "\\", 'prompt("p", "\\\\")'),
    "implicit concatenation": (
        'prompt(\n    "p",\n    "One. "  # first\n    "Two. "\n    "Three.",\n)',
        "One. 2. Three.",
        'prompt(\n    "p",\n    "One. "  # first\n    "2. "\n    "Three.",\n)',
    ),
    "concatenation of lines": (
        'prompt("p", (\n    "One\\n"\n    "Two\\n"\n))',
        "One\n2\n3\n",
        'prompt("p", (\n    "One\\n"\n    "2\\n"\n    "3\\n"\n))',
    ),
    "sum": ('prompt("p", "a" + "b")', "c", 'prompt("p", "c")'),
    "dedent": (
        'prompt("p", textwrap.dedent("""\n    One\n      two\n    """))',
        "\nOne\n  2\n\nthree\n",
        'prompt("p", textwrap.dedent("""\n    One\n      2\n\n    three\n    """))',
    ),
    "dedent with strip": (
        'prompt("p", textwrap.dedent("""\n    One\n    two\n    """).strip())',
        "One\n2",
        'prompt("p", textwrap.dedent("""\n    One\n    2\n    """).strip())',
    ),
    "what dedent cannot say": (
        'prompt("p", textwrap.dedent("""\n    One\n    """))',
        "  all indented\n  here",
        'prompt("p", """  all indented\n  here""")',
    ),
    "bidirectional characters are spelled out": (
        'prompt("p", "a")',
        "a\u202eb \u00fc",
        'prompt("p", "a\\u202eb \u00fc")',
    ),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_a_prompt_keeps_the_form_of_its_literal(make_project: Make, case: str) -> None:
    old, text, new = PROMPTS[case]
    head = "import ratchet\nimport textwrap\nfrom ratchet import prompt\nP = "
    project = make_project(head + old + "\nafter = 1\n")
    assert project.patched(p=text).decode() == head + new + "\nafter = 1\n"


def test_bom_crlf_tabs_and_other_alphabets_stay(make_project: Make) -> None:
    text = (
        'import ratchet\n# ключ 🔑\nP = ratchet.prompt("имя", "день {a}")\nif True:\n'
        '\tK = [ratchet.params("ключ", é=ratchet.Int(5, 1, 20)), "🔑"]\n'
    )
    project = make_project(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    new = project.patched(имя="ночь {a}\nи день", ключ={"é": 9})
    expected = text.replace('"день {a}"', '"""ночь {a}\nи день"""').replace("Int(5", "Int(9")
    assert new == b"\xef\xbb\xbf" + expected.replace("\n", "\r\n").encode()


METHOD = '''\
import functools
import ratchet


def plain(function):
    return function


class Ranker:
    name = "r"

    @plain
    @ratchet.evolve("ranking")
    def rank(self, query, docs):  # the naive way
        """Rank.

        By nothing.
        """
        # keep
        text = query
        return docs[0]

    def other(self):
        return 1
'''


def test_of_a_function_only_the_changed_lines_are_edited(make_project: Make) -> None:
    project = make_project(METHOD)
    old = project.baseline.resources["ranking"]
    assert isinstance(old, Code)
    new = project.patched(ranking=old.source.replace("docs[0]", "sorted(docs)[0]"))
    assert new.decode() == METHOD.replace("docs[0]", "sorted(docs)[0]")


def test_a_rewritten_method_keeps_decorators_and_indentation(make_project: Make) -> None:
    project = make_project(METHOD)
    new = project.patched(
        ranking='def rank(self, query, docs):\n    text = """a\nb"""\n\n    return docs[-1]'
    )
    head, _, tail = METHOD.partition("    def rank")
    body = (
        '    def rank(self, query, docs):\n        text = """a\nb"""\n\n        return docs[-1]\n\n'
    )
    assert new.decode() == head + body + "    def other" + tail.partition("    def other")[2]


def test_what_was_measured_is_shipped_even_inside_strings(make_project: Make) -> None:
    source = (
        "import ratchet\n\nclass A:\n    @ratchet.evolve\n    def f(self):\n"
        '        text = """\n            x\n        """\n        return text, 1\n'
    )
    project = make_project(source)
    old = project.baseline.resources["f"]
    assert isinstance(old, Code)
    project.write("agent.py", project.patched(f=old.source.replace("1", "2")))
    # A candidate's code ran dedented, its strings as they are.
    expected: dict[str, Any] = {}
    exec(old.source.replace("1", "2"), expected)
    actual: dict[str, Any] = {"__name__": "agent"}
    exec(project.source, actual)
    assert actual["A"]().f() == expected["f"](None) == ("\n            x\n        ", 2)


@pytest.mark.parametrize("change", ["(query, docs, k=1)", "(docs)", " (query, docs) -> list[str]"])
def test_a_changed_signature_is_written(make_project: Make, change: str) -> None:
    project = make_project(METHOD)
    old = project.baseline.resources["ranking"]
    assert isinstance(old, Code)
    new = old.source.replace("(self, query, docs)", change)
    expected = METHOD.replace("(self, query, docs)", change)
    assert project.patched(ranking=new).decode() == expected


def test_a_model_is_edited_field_by_field(make_project: Make) -> None:
    source = 'import ratchet\nM = ratchet.model("m", "gpt-x", base_url="http://a", temperature=1)\n'
    project = make_project(source)
    new = Model("gpt-y", "http://a", {"temperature": 0.5})
    expected = source.replace("gpt-x", "gpt-y").replace("=1)", "=0.5)")
    assert project.patched(m=new).decode() == expected
    with pytest.raises(ShipError, match=r"top_p cannot be patched.*by hand: 0\.9"):
        project.patched(m=Model("gpt-x", "http://a", {"temperature": 1, "top_p": 0.9}))


REFUSED = {
    "an f-string": ('A = "b"\nP = ratchet.prompt("p", f"x{A}")', "it is an f-string"),
    "an expression": ('P = ratchet.prompt("p", "x" * 2)', "it is an expression"),
    "a shared constant": (
        'T = "x"\nprint(T)\nP = ratchet.prompt("p", T)',
        "constant T is used on lines",
    ),
    "a reassigned name": (
        'T = "y"\nT = "x"\nP = ratchet.prompt("p", T)',
        "T is not assigned exactly once",
    ),
    "a computed name": ('P = ratchet.prompt("".join("p"), "x")', r'no ratchet\.prompt\("p"'),
    "an alias": ('f = ratchet.prompt\nP = f("p", "x")', r'no ratchet\.prompt\("p"'),
    "two of them": (
        'if 1:\n    P = ratchet.prompt("p", "x")\nelse:\n    P = ratchet.prompt("p", "z")',
        "more than once: lines 3, 5",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_edited_with_certainty_is_refused(make_project: Make, case: str) -> None:
    source, sentence = REFUSED[case]
    project = make_project(f"import ratchet\n{source}\n")
    with pytest.raises(ShipError, match=sentence) as caught:
        project.patched(p="new text")
    assert "agent.py" in str(caught.value)


def test_a_source_that_changed_since_the_baseline_is_refused(project: Any) -> None:
    candidate = project.candidate(retrieval={"k": 7})
    baseline = project.baseline
    old = project.source.decode()
    for new, sentence in [
        (old.replace("Int(5", "Int(6"), r"retrieval\.k changed since .*it is 6 now"),
        (old.replace("0.3", "0.4"), r"retrieval\.threshold changed since"),
        (old.replace("booking", "travel"), r"system.* changed since"),
        (old.replace("docs[0]", "docs[1]"), r"rank.* changed since"),
        (old.replace("=0.3", "=0.3, more=1"), "'more'.* changed since"),
        (old.replace("Int(5", "Int(7"), "already holds the candidate's value"),
        (old.replace('"retrieval"', '"other"'), r'no ratchet\.params\("retrieval"'),
        (old + "\n(", "does not parse"),
    ]:
        project.write("agent.py", new)
        with pytest.raises(ShipError, match=sentence):
            make_patch(baseline, candidate, project.declarations, project.root)


def test_a_layout_changed_since_the_baseline_is_no_change(project: Any) -> None:
    candidate = project.candidate(retrieval={"k": 7}, rank="def rank(query, docs):\n    return 1")
    source = project.source.decode().replace("Int(5", "Int(  5").replace("good as", "bad as")
    project.write("agent.py", "# moved\n" + source)
    patch = make_patch(project.baseline, candidate, project.declarations, project.root)
    assert b"Int(  7" in patch.files["agent.py"][1]


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (b"# -*- coding: latin-1 -*-\n# \xe9\n", "encoded as iso-8859-1"),
        (b"# coding: klingon\n", "declares an encoding that cannot be read"),
        (b"# \xe9\n", "declares an encoding that cannot be read|not utf-8"),
        (b"# Code generated by x. DO NOT EDIT.\n", "is marked as generated"),
    ],
)
def test_files_that_must_not_be_edited_are_refused(
    project: Any, head: bytes, sentence: str
) -> None:
    candidate = project.candidate(retrieval={"k": 7})
    project.write("agent.py", head + project.source)
    with pytest.raises(ShipError, match=sentence):
        make_patch(project.baseline, candidate, project.declarations, project.root)


def test_a_file_outside_the_repository_is_refused(project: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_bytes(project.source)
    (project.root / "link.py").symlink_to(outside)
    candidate = project.candidate(retrieval={"k": 7})
    for file, sentence in [
        (str(outside), "outside the repository"),
        (str(project.root / "link.py"), "outside the repository"),
        (None, "not declared in a file"),
        (str(project.root / "gone.py"), r"gone\.py cannot be read"),
        ("<stdin>", "not declared in a file"),
    ]:
        params = project.baseline.resources["retrieval"]
        declarations = {"retrieval": Declaration("retrieval", params, file)}
        with pytest.raises(ShipError, match=sentence):
            make_patch(project.baseline, candidate, declarations, project.root)


def test_candidates_that_are_no_patch_are_refused(project: Any) -> None:
    baseline = project.baseline

    def refused(candidate: Candidate) -> str:
        with pytest.raises(ShipError) as caught:
            make_patch(baseline, candidate, project.declarations, project.root)
        return str(caught.value)

    assert "is the same as the baseline" in refused(baseline)
    wider = Params(
        {"k": Int(7, 1, 99), "threshold": baseline.resources["retrieval"].space["threshold"]}
    )
    assert "changes the ranges" in refused(baseline.derive({"retrieval": wider}, algorithm="x"))
    jinja = PromptTemplate("x", "jinja2")
    assert "for jinja2" in refused(baseline.derive({"system": jinja}, algorithm="x"))
    comment = Code("def rank(query, docs):\n    return docs[0]  # !", "rank")
    assert "comments or layout" in refused(baseline.derive({"rank": comment}, algorithm="x"))
    only = Candidate.of({"retrieval": baseline.resources["retrieval"]})
    assert "different kinds in baseline" in refused(only)


def test_two_resources_in_one_place_are_refused(make_project: Make) -> None:
    project = make_project('import ratchet\nA, B = (ratchet.prompt(n, "x") for n in ("a", "b"))\n')
    with pytest.raises(ShipError, match=r"agent\.py"):
        project.patched(a="y")
