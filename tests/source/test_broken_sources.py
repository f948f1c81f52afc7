"""Files that do not parse, or only seem to, are read without an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.source.literals.languages import LANGUAGES
from ratchet.source.literals.search import read_file

PIECES = st.lists(
    st.sampled_from(
        [
            *("\\", "\\u", "\\u{", "\\u{110000}", "\\U00110000", "\\U", "\\x", "\\xZ", "\\N{NO}"),
            *("\\ud800", "\\udfff", "\\777", "\\8", "&#1114112;", "&#xffffffff;", "&nope;"),
            *("'", '"', "`", "'''", '"""', "f'", 'r"', "${", "{", "}", "{{", "}}", "<<EOF\n"),
            *("\n", "\r\n", "\r", "\t", " ", "\f", "\x00", "\ufeff", "\u2028", "\U0001f511", "é"),
            *("a: ", "- ", "|", ">-", "|9\n", "&a ", "*a", "!!x ", "%", "---\n", "...\n", "# "),
            *("P = ", "+", ",", ".join(", "[", "]", "(", ")", "<P a=", "/>", "=", "\\\n", "key"),
        ]
    ),
    max_size=25,
).map("".join)


@pytest.mark.parametrize("ending", [*LANGUAGES, "md"])
@given(text=PIECES)
def test_any_text_is_read(ending: str, text: str) -> None:
    for literal in read_file(text, f"a.{ending}").literals:
        assert 0 <= literal.span[0] <= literal.span[1] <= len(text)
        assert len(literal.value) == len(literal.starts) == len(literal.ends)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.py", "P = '\\u'"),
        ("a.py", "P = '\\N{NO SUCH NAME}'"),
        ("a.js", "P = '\\u{110000}'"),
        ("a.jsx", "P = <A b='&#1114112;' />"),
        ("a.go", 'package a\nvar p = "\\U00110000"'),
        ("a.toml", 'p = "\\U00110000"'),
        ("a.yaml", 'p: "\\U00110000"'),
        ("a.yaml", "p: !!python/object:x.y {}\nq: text"),
        ("a.json", '{"p": "\\ud800"}'),
    ],
)
def test_escapes_of_no_character_are_no_error(path: str, source: str) -> None:
    read_file(source, path)
