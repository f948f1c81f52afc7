"""Any text comes back: each language's own parser reads what was written into its source."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ratchet.source.literals.literal import Inexpressible
from ratchet.types import PromptTemplate

from .rewriting import rewrite

NASTY = st.lists(
    st.one_of(
        st.sampled_from(
            list("\"'`\\{}$%#<>\n\r\t |-:!&*x0nuU\x00\x1b\u2028\u202e\u00e9\U0001f511")
        ),
        st.sampled_from(["${", "}}", "\r\n", "\n\n", "'''", '"""', "\\n", "${x}", "{{y}}", "%s"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=15,
).map(lambda pieces: re.sub("\r+\n", "\r\n", "".join(pieces)))
HEAD = "You are a helpful assistant of this house. "
VALUES = {"date": "Monday", "time": "9:30"}


def doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def filled(template: str) -> str:
    return PromptTemplate(template).format(**VALUES)


def same(one: str, other: str) -> bool:
    """Line ends are those that the source had."""
    return one.replace("\r\n", "\n") == other.replace("\r\n", "\n")


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def around(form: str, literal: str) -> tuple[str, str, str]:
    head, _, tail = form.partition("LITERAL")
    return head + literal + tail, head, tail


def check(
    path: str, form: str, literal: str, old: str, new: str, value_of: Callable[[str], str]
) -> None:
    """Write a template into a source, and read it back with the language's own parser."""
    source, head, tail = around(form, literal)
    assert same(value_of(source), filled(old)), "the test's own source"
    result = rewrite(path, source, old, new)
    assert same(value_of(result), filled(new))
    assert result.startswith(head)
    assert result.endswith(tail)


class Node:
    """A process of Node that evaluates sources."""

    PROGRAM = """
    const vm = require("vm");
    require("readline").createInterface({input: process.stdin}).on("line", line => {
      const {code, values} = JSON.parse(line);
      console.log(JSON.stringify(vm.runInNewContext(code + ";P", {...values})));
    });
    """

    def __init__(self, command: str) -> None:
        self.process = subprocess.Popen(
            [command, "-e", self.PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def value_of(self, code: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"code": code, "values": VALUES}) + "\n")
        self.process.stdin.flush()
        return str(json.loads(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    command = shutil.which("node")
    if command is None:
        pytest.skip("Node is not installed")
    running = Node(command)
    yield running
    running.process.communicate(timeout=30)


def template_literal(parts: list[str]) -> str:
    escaped = [re.sub(r"[\\`$]", r"\\\g<0>", part).replace("\r", "\\r") for part in parts]
    return "`" + escaped[0] + "${date}" + escaped[1] + "${time}" + escaped[2] + "`"


def js_sum(parts: list[str]) -> str:
    return f"{quoted(parts[0])} + date\n  + {quoted(parts[1])} + time + {quoted(parts[2])}"


def js_join(parts: list[str]) -> str:
    """A line an element, the slots in template literals."""
    whole = template_literal(parts)[1:-1]
    lines = whole.split("\n")
    return "[\n  " + ",\n  ".join(f"`{line}`" for line in lines) + ',\n].join("\\n")'


def python_fstring(parts: list[str]) -> str:
    a, b, c = (doubled(quoted(part)[1:-1]) for part in parts)
    return f'f"{a}{{date}}{b}{{time}}{c}"'


def python_triple(parts: list[str]) -> str:
    a, b, c = (
        doubled(quoted(part)[1:-1].replace("\\n", "\n").replace("\\\n", "\\\\n")) for part in parts
    )
    return f'f"""{a}{{date}}{b}{{time}}{c}"""'


def python_sum(parts: list[str]) -> str:
    a, b, c = map(quoted, parts)
    return f"({a} + date +\n    {b}\n    + time + {c})"


def python_format(parts: list[str]) -> str:
    a, b, c = (doubled(quoted(part)[1:-1]) for part in parts)
    return f'"{a}{{date}}{b}{{time}}{c}".format(date=date, time=time)'


def python_percent(parts: list[str]) -> str:
    a, b, c = (quoted(part)[1:-1].replace("%", "%%") for part in parts)
    return f'"{a}%(date)s{b}%(time)s{c}" % {{"date": date, "time": time}}'


def python_value(source: str) -> str:
    scope: dict[str, Any] = dict(VALUES)
    exec(source.encode(), scope)
    return str(scope["P"])


def with_slots(test: Callable[..., None]) -> Callable[..., None]:
    """Templates with two slots in the old text and in the new one."""
    decorated = given(a=NASTY, b=NASTY, x=NASTY, y=NASTY, z=NASTY)(test)
    decorated = example(a="$", b="{", x="`${date}", y="$", z="\\")(decorated)
    decorated = example(a="", b="\n", x="a\n", y="\n\nb\n", z='"\n')(decorated)
    decorated = example(a="\n", b="\r\n", x="\nindented\n  more", y="'", z='"""')(decorated)
    return decorated


def templates(a: str, b: str, x: str, y: str, z: str) -> tuple[list[str], str, str]:
    # A file with the character NUL is no text, and never read.
    parts = [HEAD + a.replace("\0", ""), " until ", " -" + b.replace("\0", "")]
    old = doubled(parts[0]) + "{date}" + parts[1] + "{time}" + doubled(parts[2])
    new = doubled(x) + "{time}." + doubled(y) + ":{date}" + doubled(z)
    return parts, old, new


@pytest.mark.parametrize(
    ("path", "write"),
    [
        ("a.js", template_literal),
        ("a.tsx", template_literal),
        ("a.ts", js_sum),
        ("a.mjs", js_join),
    ],
)
@with_slots
def test_any_template_comes_back_in_javascript(
    path: str, write: Any, node: Node, a: str, b: str, x: str, y: str, z: str
) -> None:
    parts, old, new = templates(a, b, x, y, z)
    form = "// é\nvar é = 'é'; var P = LITERAL; var after = [`é`, 'b'];\n"
    check(path, form, write(parts), old, new, node.value_of)


@pytest.mark.parametrize(
    "write", [python_fstring, python_triple, python_sum, python_format, python_percent]
)
@with_slots
def test_any_template_comes_back_in_python(
    write: Any, a: str, b: str, x: str, y: str, z: str
) -> None:
    parts, old, new = templates(a, b, x, y, z)
    form = "# é\nbefore = 'é'\nP = LITERAL\nafter = '''é'''\n"
    literal = write(parts)
    check("a.py", form, literal, old, new, python_value)


def fixed(test: Callable[..., None]) -> Callable[..., None]:
    """Texts without slots."""
    decorated = given(a=NASTY, x=NASTY)(test)
    decorated = example(a="\n", x="\n")(decorated)
    decorated = example(a="\nb\n\n  c\n", x=" b\n\n\n  c \n# d: e")(decorated)
    decorated = example(a="é", x="- x: 'y' # z")(decorated)
    return decorated


STRINGS = {
    "json": ("a.json", '{"é": [1, "x"], "P": LITERAL, "b": "é"}\n', quoted),
    "json, ascii": ("a.json", '{"P": LITERAL, "b": "\\u00e9"}', json.dumps),
    "toml": ("a.toml", '# é\nb = "é"\nP = LITERAL\nc = [1]\n', lambda text: toml_string(text)),
    "yaml, double": ("a.yaml", "b: é\nP: LITERAL\nc: [1]\n", quoted),
    "yaml, in a list": ("a.yml", "- b: é\n  P: LITERAL\n  c: 1\n", quoted),
}


def toml_string(text: str) -> str:
    """JSON's escapes are TOML's, except for DEL."""
    return quoted(text).replace("\x7f", "\\u007f")


def data_value(path: str) -> Callable[[str], str]:
    def value_of(source: str) -> str:
        if path.endswith(".json"):
            read: Any = json.loads(source)
        elif path.endswith(".toml"):
            read = tomllib.loads(source)
        else:
            read = yaml.safe_load(source)
        return str((read[0] if isinstance(read, list) else read)["P"])

    return value_of


def yaml_safe(text: str) -> bool:
    """What stands in a YAML file as it is: PyYAML refuses other characters."""
    return (
        re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
        is None
    )


@pytest.mark.parametrize("kind", STRINGS)
@fixed
def test_any_text_comes_back_in_a_data_file(kind: str, a: str, x: str) -> None:
    path, form, write = STRINGS[kind]
    if kind.startswith("yaml"):
        a = "".join(c for c in a if yaml_safe(c) and c not in "\x85\u2028\u2029")
    old, new = HEAD + a + "end.", x + " end."
    check(path, form, write(old), doubled(old), doubled(new), data_value(path))


BLOCKS = ["|", "|-", "|+", ">", ">-", "|2-"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("header", BLOCKS)
@fixed
def test_any_text_comes_back_in_a_yaml_block(header: str, newline: str, a: str, x: str) -> None:
    kept = [line.strip() for line in re.sub(r"[^\w\n {}$'\"`]", "", a).split("\n")]
    lines = [HEAD.strip(), *(line for line in kept if line.isprintable()), "end."]
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    form = "b: é\nm:\n  P: LITERAL\n  c: 1\n"
    literal = f"{header}\n{body}"
    source, head, tail = (part.replace("\n", newline) for part in around(form, literal))
    old = yaml.safe_load(source)["m"]["P"]
    new = x + " end."
    result = rewrite("a.yaml", source, doubled(old), doubled(new))
    read = yaml.safe_load(result)
    assert same(read["m"]["P"].rstrip("\n"), new) or read["m"]["P"] == new
    assert (read["b"], read["m"]["c"]) == ("é", 1)
    assert result.startswith(head)
    assert result.endswith(tail)


@pytest.mark.parametrize(("opening", "closing"), [('"""\n', '"""'), ("'''\n", "'''"), ("'", "'")])
@fixed
def test_any_text_comes_back_in_toml_of_other_quotes(
    opening: str, closing: str, a: str, x: str
) -> None:
    middle = re.sub(r"[^\w {}$`]" if len(closing) == 1 else r"[^\w {}$`\n]", "", a)
    old, new = HEAD + middle + "end.", x + " end."
    form = '# é\nb = "é"\nP = LITERAL\nc = [1]\n'
    literal = opening + old + closing
    check("a.toml", form, literal, doubled(old), doubled(new), data_value("a.toml"))


@fixed
def test_any_text_comes_back_in_a_text_file(a: str, x: str) -> None:
    old = HEAD + a.replace("\0", "") + "end."
    new = x.replace("\0", "") + " end."
    for mark in ("", "\ufeff"):
        result = rewrite("a.md", mark + old, doubled(old), doubled(new))
        assert result.startswith(mark)
        assert same(result.removeprefix(mark), new)


SHELL_FORMS = [
    ("double", lambda text: '"' + re.sub(r'[\\"$`]', r"\\\g<0>", text) + '"'),
    ("single", lambda text: "'" + text.replace("'", "") + "'"),
]


@pytest.mark.parametrize("quotes", ["double", "single"])
@fixed
def test_any_text_comes_back_in_a_shell_script(quotes: str, a: str, x: str) -> None:
    old = HEAD + a.replace("\0", "").replace("\r", "").replace("'", "") + "end."
    new = x.replace("\0", "").replace("\r", "") + " end."
    literal = dict(SHELL_FORMS)[quotes](old)
    form = "b='é'\nP=LITERAL\nprintf %s \"$P\" # é\n"

    def value_of(source: str) -> str:
        done = subprocess.run(
            ["sh", "-c", source], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
        )
        return done.stdout.decode()

    check("a.sh", form, literal, doubled(old), doubled(new), value_of)


@fixed
def test_any_text_comes_back_in_a_here_document(a: str, x: str) -> None:
    old = HEAD + a.replace("\0", "").replace("\r", "") + "end."
    new = "So: " + x.replace("\0", "").replace("\r", "") + " end."
    for word in ("EOF", "'EOF'"):
        text = old if "'" in word else re.sub(r"[\\$`]", r"\\\g<0>", old)
        source = f"cat <<{word}\n{text}\nEOF\nb='é'\n"
        result = rewrite("a.sh", source, doubled(old), doubled(new))
        done = subprocess.run(["sh", "-c", result], capture_output=True, check=True)
        assert done.stdout.decode() == new + "\n"
        assert result.endswith("\nEOF\nb='é'\n")


JSON_IN_SHELL = [
    "P='BODY'\nprintf %s \"$P\"\n",
    'P="BODY"\nprintf %s "$P"\n',
    "cat <<EOF\nBODY\nEOF\n",
    "cat <<'EOF'\nBODY\nEOF\n",
]


@pytest.mark.parametrize("form", JSON_IN_SHELL)
@fixed
def test_any_text_comes_back_in_json_that_a_shell_script_holds(form: str, a: str, x: str) -> None:
    def body(content: str) -> str:
        message = {"role": "system", "content": content}
        text = json.dumps({"messages": [message], "stream": False}, ensure_ascii=False, indent=1)
        if 'P="' in form:
            return re.sub(r'[\\"$`]', r"\\\g<0>", text)
        return text if "'" in form else re.sub(r"[\\$`]", r"\\\g<0>", text)

    def value_of(source: str) -> str:
        done = subprocess.run(
            ["sh", "-c", source], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
        )
        return str(json.loads(done.stdout)["messages"][0]["content"])

    quotes = "'" in form and "EOF" not in form
    old = HEAD + a.replace("'", "") + "end."
    new = (x.replace("'", "") if quotes else x) + " end."
    source = form.replace("BODY", body(old))
    assert same(value_of(source), old)
    result = rewrite("a.sh", source, doubled(old), doubled(new))
    assert same(value_of(result), new)
    assert result.startswith(source[: source.index("role")])


def test_variables_stay_in_json_that_a_shell_script_holds() -> None:
    source = (
        'curl -d "{\\"messages\\": [{\\"role\\": \\"user\\",'
        ' \\"content\\": \\"You are ${WHO}. Answer $1 in a word.\\"}]}" "$URL"\n'
    )
    old, new = "You are {who}. Answer {task} in a word.", 'Answer "{task}", {who}, in a word.'
    result = rewrite("ask.sh", source, old, new)
    assert result == source.replace(
        "You are ${WHO}. Answer $1 in a word.", 'Answer \\\\\\"${1}\\\\\\", ${WHO}, in a word.'
    )


@fixed
def test_any_text_comes_back_in_go(a: str, x: str) -> None:
    """Interpreted strings of Go have JSON's escapes, with eight digits beyond the first plane."""
    old = HEAD + a + "end."
    written = "".join(
        f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else quoted(c)[1:-1] for c in old
    ).replace("\x7f", "\\u007f")
    source = f'package a\n\nvar b = `é`\nvar P = "{written}"\nvar c = "é"\n'
    result = rewrite("a.go", source, doubled(old), doubled(x + " end."))
    found = re.search(r"var P = (\".*\")\nvar c", result)
    assert found is not None
    plain = re.sub(r"\\U([0-9a-f]{8})", lambda m: chr(int(m[1], 16)), found[1])
    assert same(json.loads(plain), x + " end.")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.js", "var a = 1;\nvar P = `OLD`;\nvar b = 2;\n"),
        ("a.py", 'a = 1\nP = """\\\nOLD"""\nb = 2\n'),
        ("a.toml", 'a = 1\nP = """\nOLD"""\nb = 2\n'),
        ("a.yaml", "a: 1\nP: |-\n  OLD\nb: 2\n"),
        ("a.md", "OLD\n"),
        ("a.go", "package a\n\nvar P = `OLD`\n"),
    ],
)
def test_a_file_with_crlf_keeps_its_line_ends(path: str, source: str) -> None:
    old = HEAD + "\nBe brief.\nBe kind."
    new = HEAD + "\nBe brief.\n\nBe very kind.\nSay goodbye."
    margin = "\n  " if path == "a.yaml" else "\n"
    before, after = (
        source.replace("OLD", text.replace("\n", margin).replace("\n  \n", "\n\n"))
        for text in (old, new)
    )
    crlf = before.replace("\n", "\r\n")
    assert rewrite(path, crlf, old, new) == after.replace("\n", "\r\n")
    assert rewrite(path, before, old, new) == after


@pytest.mark.parametrize(
    ("path", "source", "result"),
    [
        (  # a string a line
            "a.js",
            'P = "Be brief.\\n" +\n    "Be kind to {who}.\\n" +\n    "Say goodbye.";\n',
            'P = "Be brief.\\n" +\n    "Be \\"very\\" kind to {who}.\\n" +\n    "Smile.\\n" +\n'
            '    "Say goodbye.";\n',
        ),
        (
            "a.py",
            "P = ('Be brief.\\n'\n     'Be kind to {who}.\\n'\n     'Say goodbye.')\n",
            "P = ('Be brief.\\n'\n     'Be \"very\" kind to {who}.\\n'\n     'Smile.\\n'\n"
            "     'Say goodbye.')\n",
        ),
        (
            "a.ts",
            "P = [\n  'Be brief.', // so\n  `Be kind to {who}.`,\n  'Say goodbye.',\n]"
            ".join('\\n');\n",
            "P = [\n  'Be brief.', // so\n  `Be \"very\" kind to {who}.`,\n  'Smile.',\n"
            "  'Say goodbye.',\n].join('\\n');\n",
        ),
        (  # escapes of what stays
            "a.json",
            '{"P": "Be brief.\\nBe kind to \\u007bwho}.\\nSay goodbye\\u002e"}\n',
            '{"P": "Be brief.\\nBe \\"very\\" kind to \\u007bwho}.\\nSmile.\\n'
            'Say goodbye\\u002e"}\n',
        ),
        (
            "a.yaml",
            "P: >\n  Be brief.\n\n  Be kind\n  to {who}.\n\n  Say\n  goodbye.\n",
            'P: >\n  Be brief.\n\n  Be "very" kind\n  to {who}.\n\n  Smile.\n\n  Say\n  goodbye.\n',
        ),
    ],
)
def test_what_stays_keeps_its_layout(path: str, source: str, result: str) -> None:
    old = "Be brief.\nBe kind to {who}.\nSay goodbye."
    new = 'Be brief.\nBe "very" kind to {who}.\nSmile.\nSay goodbye.'
    assert rewrite(path, source, old, new) == result


def test_what_a_raw_string_cannot_hold_is_written_in_other_quotes() -> None:
    old = HEAD + r"\d+ is a number."
    source = f"P = r'''{old}'''\n"
    assert python_value(rewrite("a.py", source, old, old + " It's '''raw'''.")) == (
        old + " It's '''raw'''."
    )
    go = f"package a\n\nvar P = `{old}`\n"
    assert 'var P = "' in rewrite("a.go", go, old, old + " `x`")
    with pytest.raises(Inexpressible, match="raw string cannot contain"):
        rewrite("a.py", f"P = rf'{HEAD}{{date}} and more'\n", HEAD + "{date} and more", "{date}'s")
