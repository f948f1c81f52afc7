"""Which literal is the prompt: what is searched, what fits, what is said when none does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.ship import find_literal
from ratchet.types import PromptTemplate

from .conftest import Project

TEXT = "You are a booking assistant for hotels.\nToday is {date}.\nAnswer in one sentence."
FIXED = TEXT.replace("{date}", "Monday")
JS = "`You are a booking assistant for hotels.\nToday is ${today}.\nAnswer in one sentence.`"


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., Project]:
    """Make a repository of files."""

    def make(files: dict[str, str | bytes]) -> Project:
        root = tmp_path / "repo"
        root.mkdir()
        project = Project(root)
        project.git("init", "--quiet")
        for path, content in files.items():
            project.write(path, content)
        project.commit("first")
        return project

    return make


def places(project: Project, text: str = TEXT) -> list[str]:
    return [str(place) for place in find_literal(project.root, PromptTemplate(text)).places]


def test_white_space_at_the_ends_and_indentation_may_differ(
    repository: Callable[..., Project],
) -> None:
    lines = "\n".join(f"\t\t{line}" for line in FIXED.split("\n"))
    project = repository({"a.ts": f"function f() {{\n\treturn trim(`\n{lines}\n\t`);\n}}\n"})
    assert places(project, FIXED) == ["a.ts:2"]


def test_copies_in_tests_and_comments_are_no_second_place(
    repository: Callable[..., Project],
) -> None:
    comment = "\n".join(f"// {line}" for line in TEXT.split("\n"))
    project = repository(
        {
            "src/agent.js": f"/* {TEXT} */\n{comment}\nconst p = {JS};\n",
            "tests/fixtures/call.json": json.dumps({"system": FIXED}),
            "src/agent.test.js": f"expect(p).toBe({JS});\n",
            "README.md": f"The prompt:\n\n{TEXT}\n",
        }
    )
    found = find_literal(project.root, PromptTemplate(TEXT))
    assert [str(place) for place in found.places] == ["src/agent.js:7"]
    assert [place.file for place in found.copies] == ["src/agent.test.js"]
    only = find_literal(project.root, PromptTemplate(FIXED))
    assert "except in tests: " not in only.sentence()


def test_what_is_not_the_repositorys_own_source_is_never_searched(
    repository: Callable[..., Project], tmp_path: Path
) -> None:
    source = f"const p = {JS};\n"
    outside = tmp_path / "outside.js"
    outside.write_text(source)
    many = "".join(f"var a{n}=function(x){{return x+{n}}};" for n in range(1500))
    project = repository(
        {
            ".gitignore": "local.js\n",
            "node_modules/x/index.js": source,
            "dist/agent.js": source,
            "web/app.min.js": source,
            "web/app.js": many + source,
            "package-lock.json": json.dumps({"p": FIXED}),
            ".env": f'P="{FIXED}"\n',
            ".env.local": f'P="{FIXED}"\n',
            "big.md": TEXT + " " * 1_000_001,
            "binary.md": TEXT + "\0",
            "latin.py": f"P = {TEXT!r}  # é\n".encode("latin-1"),
            "made.js": f"// @generated\n{source}",
            "calls.jsonl": json.dumps({"system": FIXED}) + "\n",
        }
    )
    (project.root / "linked.js").symlink_to(outside)
    (project.root / "linked").symlink_to(tmp_path)
    project.commit("links")
    project.write("local.js", source)
    project.write("untracked.js", source)
    for text in (TEXT, FIXED):
        found = find_literal(project.root, PromptTemplate(text))
        assert (found.places, found.copies) == ((), ())


def test_a_folder_that_became_a_link_out_of_the_repository_is_not_followed(
    repository: Callable[..., Project], tmp_path: Path
) -> None:
    project = repository({"lib/a.js": f"const p = {JS};\n"})
    assert places(project) == ["lib/a.js:1"]
    os.rename(project.root / "lib", tmp_path / "lib")
    (project.root / "lib").symlink_to(tmp_path / "lib")
    assert places(project) == []


def test_a_part_of_a_repository_is_searched_alone(repository: Callable[..., Project]) -> None:
    project = repository({"one/a.js": f"const p = {JS};\n", "two/a.js": f"const p = {JS};\n"})
    found = find_literal(project.root / "two", PromptTemplate(TEXT))
    assert [str(place) for place in found.places] == ["a.js:1"]


def test_the_nearest_literal_is_named_with_its_first_difference(
    repository: Callable[..., Project],
) -> None:
    project = repository(
        {
            "a.js": f"const p = {JS.replace('one sentence', 'two words')};\n",
            "b.js": "const p = 'You are a booking assistant of another kind, for trains.';\n",
        }
    )
    sentence = find_literal(project.root, PromptTemplate(FIXED)).sentence()
    assert sentence == (
        "No literal in the source is the prompt; the nearest is in a.js:1: it has “${today}” where"
        " the prompt has “Monday”."
    )
    project.write("agent.rb", f"require 'json'\nP = <<~TEXT\n{TEXT}\nTEXT\n" + "puts ask(P)\n" * 40)
    project.write("a.js", "")
    project.commit("in Ruby")
    assert "agent.rb:3: that file is treated as one text" in (
        find_literal(project.root, PromptTemplate(TEXT)).sentence()
    )
    nothing = find_literal(project.root, PromptTemplate("Something else is asked for here."))
    assert nothing.sentence() == "No literal in the source is the prompt."


def test_a_file_that_does_not_parse_does_not_stop_the_search(
    repository: Callable[..., Project],
) -> None:
    project = repository(
        {"a.js": f"const p = {JS};\n", "b.js": f"const = {JS[:-1]}\n", "c.yaml": f"a: [\n{TEXT}"}
    )
    assert "a.js:1" in places(project)


def test_a_template_with_logic_is_nowhere(repository: Callable[..., Project]) -> None:
    project = repository({"a.md": "{% if x %}You are an assistant.{% endif %}"})
    template = PromptTemplate("{% if x %}You are an assistant.{% endif %}", engine="jinja2")
    assert "The gateway does not run its logic" in find_literal(project.root, template).sentence()
