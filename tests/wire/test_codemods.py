"""Prompts are declared in Python code: the value stays the same, and a candidate's text arrives."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.bind import Binding, bound, declarations, registry
from ratchet.types import PromptTemplate
from ratchet.wire.changes import apply_pieces
from ratchet.wire.codemods import PromptLiteral, declare
from ratchet.wire.codemods.python_file import PythonFile
from ratchet.wire.codemods.python_prompts import PromptEdits

MARK = "shelves"
"""A word of each literal that is a prompt."""

_numbers = itertools.count()


def _spans(data: bytes) -> list[tuple[int, int]]:
    """Bytes of the literals of a file that hold the mark, in their order."""
    file = PythonFile("texts.py", data)
    inner = {
        part
        for node in ast.walk(file.tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    return sorted(
        (file.start(node), file.end(node))
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        and node not in inner
        and MARK in ast.unparse(node)
    )


def _bind_all(edits: PromptEdits, data: bytes) -> tuple[str, str]:
    """Name of the first prompt, and why one was left alone."""
    name = f"prompt_{next(_numbers)}"
    spans = _spans(data)
    names = [name if not n else f"{name}.{n}" for n in range(len(spans))]
    left = [edits.bind(one, *span) for one, span in zip(names, spans, strict=True)]
    return name, next((why for why in left if why), "")


def _bind(source: str | bytes) -> tuple[bytes, str, str]:
    """The file afterwards, the prompt's name, and why it was left alone."""
    data = source.encode() if isinstance(source, str) else source
    edits = PromptEdits(PythonFile("texts.py", data))
    name, why = _bind_all(edits, data)
    return (apply_pieces(data, edits.pieces()) if not why else data), name, why


def _run(data: bytes, name: str = "texts") -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": name}
    code = compile(data, f"{name}_{next(_numbers)}.py", "exec", dont_inherit=True)
    exec(code, module)
    return module


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    registry.forget()


CASES = {
    "a constant": 'TEXT = "Sort the shelves."\ndef result():\n    return TEXT\n',
    "lines in triple quotes": (
        'TEXT = """\nSort the shelves.\n  {book} and {{json}}\n"""\ndef result():\n    return TEXT\n'
    ),
    "braces that are no template": (
        "TEXT = 'Sort the shelves as {\"a\": [1]}'\ndef result():\n    return TEXT\n"
    ),
    "a raw literal": "TEXT = r'Sort the shelves \\d \\n'\ndef result():\n    return TEXT\n",
    "pieces side by side": (
        'TEXT = (\n    "Sort the shelves "  # first\n    "by author.\\n"\n)\n'
        "def result():\n    return TEXT\n"
    ),
    "a class attribute": (
        "class Texts:\n    SYSTEM = 'Sort the shelves.'\n\ndef result():\n    return Texts.SYSTEM\n"
    ),
    "a default argument": "def result(text='Sort the shelves.'):\n    return text\n",
    "a text that is worked on": (
        "import textwrap\nTEXT = textwrap.dedent('''\n    Sort the shelves.\n    ''').strip()\n"
        "def result():\n    return TEXT\n"
    ),
    "a text with percent signs": (
        "TEXT = 'Sort the shelves of %s' % 'Rome'\ndef result():\n    return TEXT\n"
    ),
    "a text that is formatted": (
        "TEXT = 'Sort the shelves of {town}'.format(town='Rome')\ndef result():\n    return TEXT\n"
    ),
    "a literal in a function": (
        "def result():\n    # why\n    return ask('Sort the shelves.')\n\n\n"
        "def ask(text):\n    return text\n"
    ),
    "an f-string in a function": (
        "def result(town='Rome', n=2):\n"
        "    return f'Sort the {n:03d} shelves of {town!r} {{x}} {town.upper()} {town}'\n"
    ),
    "an f-string of several lines": (
        'def result(town="Rome"):\n    return f"""Sort the shelves\n    of {town}.\n    "Quotes" \\\\ """\n'
    ),
    "an f-string beside a plain piece": (
        "def result(town='Rome'):\n    return ('Sort the {shelves} '\n        f'of {town}')\n"
    ),
    "an f-string of the module": (
        "TOWN = 'Rome'\nTEXT = f'Sort the shelves of {TOWN}'\nTOWN = 'Oslo'\n"
        "def result():\n    return TEXT\n"
    ),
    "slots of one name": (
        "class A:\n    name = 'a'\nclass B:\n    name = 'b'\n"
        "def result():\n    return f'Sort the shelves of {A.name} and {B.name}'\n"
    ),
    "slots that count": (
        "n = iter(range(9))\ndef result():\n    return f'Sort the shelves {next(n)} {next(n)}'\n"
    ),
    "a decorated function": (
        "import functools\n\n# about\n@functools.cache\ndef result():\n"
        "    '''Help.'''\n    return 'Sort the shelves.'\n"
    ),
    "a method": (
        "class Agent:\n    def system(self):\n        return f'Sort the shelves {self.x}'\n    x = 1\n"
        "def result():\n    return Agent().system()\n"
    ),
    "a lambda": "result = lambda: 'Sort the shelves.'\n",
    "a conditional": "def result(a=1):\n    return 'Sort the shelves.' if a else ''\n",
    "an enum": (
        "import enum\nclass T(enum.Enum):\n    A = 'Sort the shelves.'\n"
        "def result():\n    return T.A.value\n"
    ),
    "a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass T:\n    a: str = 'Sort the shelves.'\n"
        "def result():\n    return T().a\n"
    ),
    "a docstring and a future import": (
        '"""About."""\nfrom __future__ import annotations\n\nTEXT: str = "Sort the shelves."\n'
        "def result():\n    return TEXT\n"
    ),
    "a module that has a ratchet of its own": (
        "def ratchet():\n    return 1\nTEXT = 'Sort the shelves.'\n"
        "def result():\n    return TEXT * ratchet()\n"
    ),
    "an f-string without slots": "def result():\n    return f'Sort the {{x}} shelves'\n",
    "an f-string without slots in the module": (
        "TEXT = f'Sort the {{x}} shelves'\ndef result():\n    return TEXT\n"
    ),
    "slots with names that are none without their underscore": (
        "def result(_class=1, _1=2):\n    return f'Sort the {_class} shelves {_1}'\n"
    ),
    "a slot that changes one before and one after it": (
        "def result():\n    rows = [1, 2]\n"
        "    return f'Sort the {rows} shelves {rows.pop()} {rows}'\n"
    ),
    "a slot that changes an attribute": (
        "class A:\n    n = 0\ndef up():\n    A.n += 1\n    return A.n\n"
        "def result():\n    A.n = 0\n    return f'Sort the {A.n} shelves {up()} {A.n} {up()}'\n"
    ),
    "a slot that awaits": (
        "import asyncio\nasync def g():\n    return 1\n"
        "async def h():\n    return f'Sort the {await g()} shelves'\n"
        "def result():\n    return asyncio.run(h())\n"
    ),
    "a slot that names itself": "def result(x='é'):\n    return f'Sort the {x=} shelves {x = !s:>5}'\n",
    "a literal right behind a word": "def result():\n    return'Sort the shelves'\n",
    "a text before it that ends like a comment": (
        "X = '''\n# heading'''\ndef result():\n    return 'Sort the shelves' + X\n"
    ),
    "a script without imports": "#!/usr/bin/env python\ndef result():\n    return 'Sort the shelves'\n",
    "a parameter named str": "def result(str=1):\n    return 'Sort the shelves'\n",
    "a parameter named ratchet": (
        "import ratchet\ndef f(ratchet):\n    return 1\ndef result():\n    return 'Sort the shelves'\n"
    ),
    "a module that uses both names": (
        "ratchet = 1; _ratchet = 2\nTEXT = 'Sort the shelves'\ndef result():\n    return TEXT * _ratchet\n"
    ),
    "a docstring of a class in a function": (
        "def result():\n    class A:\n        'Sort the shelves'\n    return A.__doc__\n"
    ),
    "a private attribute": (
        "class A:\n    def __init__(self):\n        self.__x = 1\n    def text(self):\n"
        "        return f'Sort the {self.__x} shelves'\ndef result():\n    return A().text()\n"
    ),
    "a comprehension": (
        "TEXT = ' '.join(f'Sort the {i} shelves' for i in range(3))\ndef result():\n    return TEXT\n"
    ),
    "no line end at the end": "result = lambda: TEXT\nTEXT = 'Sort the shelves.'",
    "a character beyond the plane": "TEXT = 'Sort the shelves 📚 ñ'\ndef result():\n    return TEXT\n",
}


@pytest.mark.parametrize("case", CASES)
def test_the_value_stays_the_same_to_the_byte(case: str) -> None:
    before = _run(CASES[case].encode())["result"]()
    data, _, why = _bind(CASES[case])
    assert why == ""
    after = _run(data)["result"]()
    assert after == before
    assert type(after) is type(before) is str


@pytest.mark.parametrize("case", CASES)
def test_a_candidates_text_arrives(case: str) -> None:
    data, name, _ = _bind(CASES[case])
    _run(data)
    declared = declarations()[name].resource
    assert isinstance(declared, PromptTemplate)
    changed = PromptTemplate(declared.text.replace("Sort", "Count"), declared.engine)
    registry.forget()
    with bound(Binding(resources={name: changed})):
        found = _run(data)["result"]()  # imported anew, as a candidate's worker does
    assert "Count the" in found


@pytest.mark.parametrize(
    "case", ["a literal in a function", "an f-string in a function", "a method"]
)
def test_inside_a_function_each_call_gets_the_text_that_is_bound(case: str) -> None:
    data, name, _ = _bind(CASES[case])
    module = _run(data)
    declared = declarations()[name].resource
    assert isinstance(declared, PromptTemplate)
    changed = PromptTemplate(declared.text.replace("Sort", "Count"))
    with bound(Binding(resources={name: changed})):
        assert "Count the" in module["result"]()
    assert "Sort the" in module["result"]()


@pytest.mark.parametrize("case", CASES)
def test_line_ends_and_a_byte_order_mark_stay(case: str) -> None:
    source = b"\xef\xbb\xbf" + CASES[case].replace("\n", "\r\n").encode()
    before = _run(source)["result"]()
    data, _, why = _bind(source)
    assert why == ""
    assert data.startswith(b"\xef\xbb\xbf")
    assert data.count(b"\n") == data.count(b"\r\n")
    assert _run(data)["result"]() == before


def test_all_other_bytes_stay_and_a_comment_keeps_its_place() -> None:
    source = (
        "#!/usr/bin/env python\n# license\n\nimport os  # first\n\n\n"
        "TEXT = 'Sort the shelves.'  # why\nx=1;y  =  2\n"
    )
    data, name, _ = _bind(source)
    assert data.decode() == (
        "#!/usr/bin/env python\n# license\n\nimport os  # first\nimport ratchet\n\n\n"
        f"TEXT = str(ratchet.prompt(\"{name}\", 'Sort the shelves.'))  # why\nx=1;y  =  2\n"
    )


def test_a_signature_keeps_its_docstring_as_instructions() -> None:
    source = (
        "class Answer:\n    '''Sort the shelves.'''\n    a = dict(desc='where the shelves are')\n"
    )
    data, name, why = _bind(source)
    assert why == ""
    module = _run(data)
    assert module["Answer"].__doc__ == "Sort the shelves."
    assert module["Answer"].a == {"desc": "where the shelves are"}
    assert set(declarations()) == {name, f"{name}.1"}


@pytest.mark.parametrize("case", CASES)
def test_a_release_patches_the_literal_that_was_declared(case: str, tmp_path: Path) -> None:
    from ratchet.ship.patch import make_patch
    from ratchet.types import Candidate

    data, name, _ = _bind(CASES[case])
    file = tmp_path / "texts.py"
    file.write_bytes(data)
    module: dict[str, Any] = {"__name__": "texts"}
    exec(compile(data, str(file), "exec", dont_inherit=True), module)
    old = declarations()[name].resource
    assert isinstance(old, PromptTemplate)
    new = PromptTemplate(old.text.replace("Sort", 'Count\n"all"'), old.engine)
    patch = make_patch(
        Candidate.of({name: old}, reason=""),
        Candidate.of({name: new}, reason=""),
        declarations(),
        tmp_path,
    )
    registry.forget()
    (_, after) = patch.files["texts.py"]
    exec(compile(after, str(file), "exec", dont_inherit=True), {"__name__": "texts"})
    assert declarations()[name].resource == new


REFUSED = {
    "TEXT = ratchet.prompt('x', 'Sort the shelves.')\n": "already declared",
    "def f(x):\n    match x:\n        case 'Sort the shelves.':\n            return 1\n": "pattern",
    "def f(a):\n    return f'Sort the shelves {(b := a)} {b}'\n": "assigns or yields",
    "import ratchet as r\nTEXT = r.prompt('x', 'Sort the shelves.')\n": "already declared",
    "from ratchet import prompt as p\nTEXT = str(p('x', 'Sort the shelves.'))\n": "already declared",
    "def f():\n    'Sort the shelves.'\n": "docstring of a function",
    "'Sort the shelves.'\n": "docstring of a function or module",
    "import os; TEXT = 'Sort the shelves.'\n": "above the imports",
    "TEXT = 'Sort the shelves.'\nimport ratchet\n": "above the imports",
    "def f(x: Literal['Sort the shelves.']):\n    pass\n": "part of a type",
    "def f() -> 'the shelves':\n    pass\n": "part of a type",
    "TEXT: Literal['shelves'] = 'shelves'\n": "part of a type",
    "TEXT = 'Sort the shelves \\ud800'\n": "half of a surrogate pair",
    "# coding: latin-1\ndef f(x):\n    return f'Sort the shelves \\xe9 {x}'\n": "not UTF-8",
    "def f(x):\n    return ('Sort the shelves '  # first\n        f'{x}')\n": "There are comments",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_would_change_its_meaning_is_left_alone_with_the_reason(source: str) -> None:
    data, _, why = _bind(source)
    assert REFUSED[source] in why
    assert data == source.encode()


EXACT = {
    # A slot that acts: what stands before it is formatted at once, and not read again after it.
    "def f(a):\n    return f'{a} shelves {a.pop()} {a}'\n": (
        "import ratchet\n"
        "_NAME = ratchet.prompt(\"NAME\", '{a} shelves {pop} {a_2}')\n\n\n"
        "def f(a):\n    return _NAME.format(a=f'{a}', pop=a.pop(), a_2=a)\n"
    ),
    'from x import y\n\nclass A(Signature):\n    """Sort\n    the shelves."""\n': (
        "from x import y\nimport ratchet\n\nclass A(Signature):\n"
        '    __doc__ = str(ratchet.prompt("NAME", """Sort\n    the shelves."""))\n'
    ),
    "def ratchet():\n    pass\nA = 'shelves {} {0}'.format(1)\n": (
        "import ratchet as _ratchet\ndef ratchet():\n    pass\n"
        'A = str(_ratchet.prompt("NAME", \'shelves {} {0}\', engine="plain")).format(1)\n'
    ),
    "import ratchet\nN = 2\nA: Final = f'{N:02d} shelves {{}}'  # why\n": (
        "import ratchet\nN = 2\n"
        "A: Final = ratchet.prompt(\"NAME\", '{N} shelves {{}}').format(N=f'{N:02d}')  # why\n"
    ),
}


@pytest.mark.parametrize("source", EXACT)
def test_a_declaration_is_written_in_this_way(source: str) -> None:
    data, name, why = _bind(source)
    assert why == ""
    expected = EXACT[source].replace("_NAME", f"_{name.upper()}").replace("NAME", name)
    assert data.decode() == expected


def test_a_declared_prompt_is_not_declared_again() -> None:
    for source in CASES.values():
        data, _, _ = _bind(source)
        again, _, why = _bind(data)
        assert "already declared" in why
        assert again == data


def test_a_literal_of_two_prompts_is_declared_once() -> None:
    data = b"TEXT = 'Sort the shelves.'\n"
    edits = PromptEdits(PythonFile("texts.py", data))
    assert _bind_all(edits, data)[1] == ""
    assert "another prompt" in _bind_all(edits, data)[1]
    compile(apply_pieces(data, edits.pieces()), "texts.py", "exec")


KEPT = {
    "def create_agent():\n    return Agent('Sort the shelves.')\n": True,
    "class A:\n    def __init__(self):\n        self.text = 'Sort the shelves.'\n": True,
    "@functools.cache\ndef text():\n    return 'Sort the shelves.'\n": True,
    "def text():\n    return 'Sort the shelves.'\ndef agent():\n    return text()\nX = agent()\n": True,
    "class A:\n    def a(self):\n        return 'Sort the shelves.'\nX = A()\n": True,
    "def text():\n    return 'Sort the shelves.'\n": False,
    "def text():\n    return 'Sort the shelves.'\nif __name__ == '__main__':\n    text()\n": False,
}


@pytest.mark.parametrize("source", KEPT)
def test_a_text_that_outlives_its_call_asks_for_an_import_per_candidate(source: str) -> None:
    data = source.encode()
    edits = PromptEdits(PythonFile("texts.py", data))
    assert _bind_all(edits, data)[1] == ""
    assert edits.at_import is KEPT[source]


def test_bytes_that_are_no_literal_are_left_alone() -> None:
    edits = PromptEdits(PythonFile("a.py", b"x = 1\n"))
    assert "consists of several pieces" in edits.bind("p", 0, 5)


_TEXTS = st.text(
    st.sampled_from("ab {}\"'\\\n\t%#é📚")
    | st.characters(codec="utf-8", exclude_categories=["Cs"]),
    max_size=40,
)


@given(text=_TEXTS, quote=st.sampled_from(["repr", "triple", "raw"]), inside=st.booleans())
def test_any_text_in_any_literal_stays_what_it_is(text: str, quote: str, inside: bool) -> None:
    text = f"shelves {text}".replace("\r", "")
    literal = repr(text)
    if quote == "triple" and '"""' not in text and "\\" not in text and not text.endswith('"'):
        literal = f'"""{text}"""'
    elif quote == "raw" and not set(text) & set("'\n\\"):
        literal = f"r'{text}'"
    try:
        if ast.literal_eval(literal) != text:
            literal = repr(text)
    except (SyntaxError, ValueError):
        literal = repr(text)
    source = (
        f"def result():\n    return {literal}\n"
        if inside
        else f"TEXT = {literal}\ndef result():\n    return TEXT\n"
    )
    data, _, why = _bind(source)
    assert why == ""
    assert _run(data)["result"]() == text


@given(pieces=st.lists(st.tuples(_TEXTS, st.sampled_from(["a", "b.c", "f(a)", "a!r", "a:>5"]))))
def test_any_f_string_stays_what_it_is(pieces: list[tuple[str, str]]) -> None:
    inner = "".join(
        text.replace("{", "{{").replace("}", "}}").replace("\r", "") + "{" + slot + "}"
        for text, slot in pieces
    )
    written = repr(f"shelves {inner}")
    source = (
        "class b:\n    c = 7\ndef f(x):\n    return x * 2\n"
        f"def result(a='q'):\n    return f{written}\n"
    )
    try:
        before = _run(source.encode())["result"]()
    except SyntaxError:
        return  # an escape within the slots' braces, which this Python does not allow
    data, _, why = _bind(source)
    assert why == ""
    assert _run(data)["result"]() == before


_ACTS = [
    "rows",
    "rows.pop()",
    "rows.append(9) or len(rows)",
    "box.n",
    "box.up()",
    "rows!r",
    "box.n:>4",
]


@given(
    pieces=st.lists(st.tuples(_TEXTS, st.sampled_from(_ACTS)), min_size=1, max_size=6),
    inside=st.booleans(),
)
def test_slots_that_act_on_one_another_fill_the_same_text(
    pieces: list[tuple[str, str]], inside: bool
) -> None:
    inner = "".join(
        repr(text)[1:-1].replace("{", "{{").replace("}", "}}").replace('"', "'") + f"{{{slot}}}"
        for text, slot in pieces
        if "\\" not in repr(text)
    )
    setting = (
        "class Box:\n    n = 0\n    def up(self):\n        self.n += 1\n        return self.n\n"
        "rows, box = list(range(20)), Box()\n"
    )
    source = setting + (
        f'def result():\n    return f"shelves {inner}", rows, box.n\n'
        if inside
        else f'TEXT = f"shelves {inner}"\ndef result():\n    return TEXT, rows, box.n\n'
    )
    before = _run(source.encode())["result"]()
    data, _, why = _bind(source)
    assert why == ""
    assert _run(data)["result"]() == before


_PLACES = {
    "constant": "A{n} = {literal}\nGOT.append(A{n})\n",
    "class": "class C{n}:\n    a: str = {literal}\nGOT.append(C{n}.a)\n",
    "docstring": "class D{n}:\n    {plain}\nGOT.append(D{n}.__doc__)\n",
    "default": "def d{n}(x, text={literal}):\n    return text\nGOT.append(d{n}(1))\n",
    "function": "def f{n}(x='q'):\n    return ({literal}\n    )\nGOT.append(f{n}())\n",
    "method": "class M{n}:\n    x = 1\n    @property\n    def m(self):\n"
    "        return {literal}\nGOT.append(M{n}().m)\n",
    "list": "GOT.append('\\n'.join([x, {literal}, x]))\n",
    "sum": "def s{n}():\n    return x + {literal} + x\nGOT.append(s{n}())\n",
    "strip": "GOT.append({literal}.strip())\n",
    "lambda": "GOT.append((lambda x=2: {literal})())\n",
    "branch": "if x:\n    GOT.append({literal})\n",
    "async": "async def y{n}():\n    return {literal}\nGOT.append(asyncio.run(y{n}()))\n",
    "dataclass": "@dataclasses.dataclass\nclass E{n}:\n    a: str = {literal}\nGOT.append(E{n}().a)\n",
    "enum": "class F{n}(enum.Enum):\n    A = {literal}\nGOT.append(F{n}.A.value)\n",
}
_HEAD = '"""About."""\nfrom __future__ import annotations\nimport asyncio, dataclasses, enum\nx = "q"\nGOT = []\n'


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(sorted(_PLACES)), _TEXTS, st.booleans()), min_size=1, max_size=5
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_a_module_of_prompts_of_every_kind_gives_the_same_values(
    parts: list[tuple[str, str, bool]], end: str, mark: bytes
) -> None:
    source = _HEAD
    for n, (place, text, slot) in enumerate(parts):
        plain = repr(f"shelves {text}")
        literal = plain
        if slot:
            literal = "f" + plain.replace("{", "{{").replace("}", "}}") + " f'{x}'"
            if "\\N" in plain:
                literal = plain
        body = _PLACES[place].replace("{n}", str(n))
        source += body.replace("{plain}", plain).replace("{literal}", literal)
    data = mark + source.replace("\n", end).encode()
    before = _run(data, "__main__")["GOT"]
    edits = PromptEdits(PythonFile("texts.py", data))
    assert _bind_all(edits, data)[1] == ""
    after = apply_pieces(data, edits.pieces())
    registry.forget()
    assert _run(after, "__main__")["GOT"] == before
    assert {type(one) for one in before} == {str}
    assert len(declarations()) == len(parts)


AGENT = """# é first
import os
from openai import OpenAI

client = OpenAI()
SYSTEM = '''Você é um assistente útil que responde shelves.
Answer briefly 📚.'''


def run(question, tone="kind"):
    return client.chat.completions.create(
        model="m",
        messages=[
            {"role": "system", "content": SYSTEM},
            {"role": "system", "content": f"Answer é of shelves in a {tone} tone of voice."},
            {"role": "user", "content": question},
        ],
    )
"""


def _literals(data: bytes, path: str = "app.py") -> list[PromptLiteral]:
    spans = enumerate(_spans(data))
    return [PromptLiteral(f"p{number}", path, *span) for number, span in spans]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_prompts_of_a_repository_are_declared_where_they_stand(
    tmp_path: Path, mark: bytes, end: str
) -> None:
    before = mark + AGENT.replace("\n", end).encode()
    (tmp_path / "app.py").write_bytes(before)
    made = declare(tmp_path, _literals(before))
    assert made.changes.left_alone == ()
    assert (made.names, made.import_per_candidate) == (("p0", "p1"), True)
    (change,) = made.changes.files
    after = apply_pieces(before, change.pieces)
    assert after.startswith(mark)
    assert after.count(b"\n") == after.count(end.encode())
    assert after.decode("utf-8-sig").count("ratchet.prompt(") == 2
    (tmp_path / "app.py").write_bytes(after)
    again = declare(tmp_path, _literals(after))
    assert again.changes.files == ()
    assert {"already declared" in left.why for left in again.changes.left_alone} == {True}


def test_what_cannot_be_declared_is_left_with_its_place(tmp_path: Path) -> None:
    data = AGENT.encode()
    (tmp_path / "app.py").write_bytes(data)
    (tmp_path / "notes.md").write_text("You sort the shelves.")
    (tmp_path / "broken.py").write_text("def (")
    gone = PromptLiteral("gone", "gone.py", 0, 3)
    text = PromptLiteral("text", "notes.md", 0, 3)
    broken = PromptLiteral("broken", "broken.py", 0, 3)
    made = declare(tmp_path, [*_literals(data), gone, text, broken])
    assert [change.path for change in made.changes.files] == ["app.py"]
    assert {left.what for left in made.changes.left_alone} == {"gone", "text", "broken"}
    (tmp_path / "src").mkdir()
    (tmp_path / "src/ratchet.py").write_text("")
    hidden = declare(tmp_path, _literals(data))
    assert hidden.changes.files == ()
    assert [str(left.place) for left in hidden.changes.left_alone] == ["app.py:6", "app.py:15"]
    assert {"rename that first" in left.why for left in hidden.changes.left_alone} == {True}


def test_what_is_inserted_never_lands_in_a_text() -> None:
    first = b'import os; X = """a\nb"""\nY = 1\n'
    pieces = PythonFile("a.py", first).import_ratchet()
    assert apply_pieces(first, pieces) == b'import os; X = """a\nb"""\nimport ratchet\nY = 1\n'
    second = b'X = """\n# heading"""\n# why\ndef f():\n    pass\n'
    file = PythonFile("b.py", second)
    piece = file.before(file.tree.body[1], "mark()", above=True)
    assert piece is not None
    expected = b'X = """\n# heading"""\nmark()\n# why\ndef f():\n    pass\n'
    assert apply_pieces(second, [piece]) == expected
