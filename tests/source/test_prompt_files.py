"""Files of prompts: declared from their texts, rendered byte-exactly, refused in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ratchet.source.prompt_files import declared_prompts, rendered
from ratchet.types import InputError, PromptFile, PromptTemplate

YAML = """\
# The crew
base: &base {role: Shared.}
researcher:
  role: "Researcher of {topic}"   # shown to users
  goal: >
    Find what is new
    about {topic}.
  tools: [1, "Search."]
writer:
  <<: *base
  goal: |-
    Write {"json": true}.
twin: Same.
other twin: Same.
alias: &t Text.
again: *t
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(folder: Path, *files: PromptFile) -> dict[str, tuple[str, str]]:
    return {
        name: (each.resource.text, each.resource.engine)  # type: ignore[union-attr]
        for name, each in declared_prompts(folder, files).items()
    }


def changed(folder: Path, file: PromptFile, **to: str) -> bytes:
    """What the file holds with other texts; a double underscore stands for a dot."""
    declared = declared_prompts(folder, [file])
    new = {
        name: PromptTemplate(text, declared[name].resource.engine)  # type: ignore[union-attr]
        for name, text in ((given.replace("__", "."), text) for given, text in to.items())
    }
    contents = rendered(folder, [file], new)  # type: ignore[arg-type]
    assert list(contents) == [str((folder / file.path).resolve())]
    return contents[str((folder / file.path).resolve())]


def test_fields_are_named_by_their_keys_and_their_placeholders_tell_the_engine(
    tmp_path: Path,
) -> None:
    write(tmp_path, "config/agents.yaml", YAML)
    fields = ("researcher.role", "researcher.goal", "researcher.tools.1", "writer.goal")
    assert texts(tmp_path, PromptFile("config/agents.yaml", fields)) == {
        "agents.researcher.role": ("Researcher of {topic}", "f-string"),
        "agents.researcher.goal": ("Find what is new about {topic}.\n", "f-string"),
        "agents.researcher.tools.1": ("Search.", "plain"),
        "agents.writer.goal": ('Write {"json": true}.', "plain"),
    }


def test_whole_files_are_their_text_without_front_matter(tmp_path: Path) -> None:
    write(tmp_path, "a.prompty", "---\nname: a\n---\nHello {{ name }}.\n")
    write(tmp_path, "b.md", "\ufeffBe kind.\r\nBe brief.\r\n")
    write(tmp_path, "c.yaml", "a: {b: 1}\n")
    found = texts(tmp_path, PromptFile("a.prompty"), PromptFile("b.md"), PromptFile("c.yaml"))
    assert found == {
        "a": ("Hello {{ name }}.\n", "jinja2"),
        "b": ("Be kind.\nBe brief.\n", "plain"),
        "c": ("a: {b: 1}\n", "plain"),
    }


@pytest.mark.parametrize(
    ("name", "before", "field", "text", "after"),
    [
        (
            "a.yaml",
            YAML,
            "researcher.role",
            'A "good" {topic}',
            YAML.replace("Researcher of {topic}", 'A \\"good\\" {topic}'),
        ),
        (
            "a.yaml",
            YAML,
            "writer.goal",
            "Write.\n\nTwice.",
            YAML.replace('    Write {"json": true}.', "    Write.\n\n    Twice."),
        ),
        ("a.yaml", YAML, "twin", "New.", YAML.replace("twin: Same.", "twin: New.", 1)),
        ("a.yaml", "a: 'x'\r\nb: 'x' # c\r\n", "b", "y", "a: 'x'\r\nb: 'y' # c\r\n"),
        (
            "a.toml",
            "# t\n[p]\nq = '''\nHi.\n'''\n",
            "p.q",
            "Yo.\n",
            "# t\n[p]\nq = '''\nYo.\n'''\n",
        ),
        ("a.json", '{ "p": ["x", "x"] }', "p.1", "ä\n", '{ "p": ["x", "ä\\n"] }'),
    ],
)
def test_a_field_changes_and_every_other_byte_stays(
    tmp_path: Path, name: str, before: str, field: str, text: str, after: str
) -> None:
    write(tmp_path, name, before)
    file = PromptFile(name, (field,))
    assert changed(tmp_path, file, **{f"a.{field}": text}) == after.encode()


def test_line_ends_front_matter_and_mark_of_a_whole_file_stay(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "\ufeff---\r\nx: 1\r\n---\r\nOne.\r\nTwo.\r\n")
    made = changed(tmp_path, PromptFile("a.md"), a="One.\nThree.\nTwo.\n")
    assert made == "\ufeff---\r\nx: 1\r\n---\r\nOne.\r\nThree.\r\nTwo.\r\n".encode()


def test_several_fields_of_one_file_change_together_and_the_source_is_no_change(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a.yaml", YAML)
    file = PromptFile("a.yaml", ("twin", "other twin"))
    both = changed(tmp_path, file, a__twin="One.", **{"a.other-twin": "Two."})
    assert (
        both
        == YAML.replace("other twin: Same.", "other twin: Two.")
        .replace("\ntwin: Same.", "\ntwin: One.")
        .encode()
    )
    assert rendered(tmp_path, [file], {"a.twin": PromptTemplate("Same.", "plain")}) == {}


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (PromptFile("gone.yaml", ("a",)), "which does not exist"),
        (PromptFile("../out.md"), "outside the project"),
        (PromptFile("link.md"), "outside the project"),
        (PromptFile("a.yaml", ("researcher.gaol",)), "has no field 'researcher.gaol'. Its texts"),
        (PromptFile("a.yaml", ("researcher.tools.0",)), "is of type int"),
        (PromptFile("a.yaml", ("researcher",)), "is of type dict"),
        (PromptFile("a.yaml", ("writer.role",)), "is not written out in the file"),
        (PromptFile("a.yaml", ("again",)), "is not written out in the file"),
        (PromptFile("b.md", ("x",)), "not a YAML, TOML or JSON file"),
        (PromptFile("bad.yaml", ("x",)), "is not YAML"),
        (PromptFile("latin.md"), "is not UTF-8"),
        (PromptFile("a.yaml", ("twin",), "jinja2", name="two words"), ""),
        (PromptFile("c.md", engine="f-string"), "not an f-string template"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    tmp_path: Path, file: PromptFile, says: str
) -> None:
    root = tmp_path / "project"
    write(tmp_path, "out.md", "x")
    write(root, "a.yaml", YAML)
    write(root, "b.md", "x")
    write(root, "c.md", "{")
    write(root, "bad.yaml", "a: [")
    write(root, "latin.md", "ä".encode("latin-1"))
    (root / "link.md").symlink_to("../out.md")
    if not says:
        assert list(declared_prompts(root, [file])) == ["two-words.twin"]
        return
    with pytest.raises(InputError, match=says):
        declared_prompts(root, [file])


def test_two_prompts_of_one_name_are_refused_unless_one_is_renamed(tmp_path: Path) -> None:
    write(tmp_path, "a/plan.md", "A")
    write(tmp_path, "b/plan.md", "B")
    with pytest.raises(InputError, match=r"Two prompts of .* are named 'plan'"):
        declared_prompts(tmp_path, [PromptFile("a/plan.md"), PromptFile("b/plan.md")])
    files: list[Any] = [PromptFile("a/plan.md"), PromptFile("b/plan.md", name="second")]
    assert list(declared_prompts(tmp_path, files)) == ["plan", "second"]
