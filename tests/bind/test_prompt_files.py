"""Prompts in files: what is declared, and what whoever opens the file reads."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ratchet.bind import Binding, bound, declarations, prompt_files, registry
from ratchet.bind.prompt_files import PromptFile, declare_prompt_files, with_texts
from ratchet.types import InputError, PromptTemplate

AGENTS = """\
# The crew.
planner:
  role: >
    Planner of
    journeys
  goal: "Plan {city}"   # keep
  backstory: |-
    You know
      each train.
other:
  goal: 'Something else'
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    registry.forget()
    prompt_files._watched.clear()
    prompt_files._basenames.clear()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agents.yaml").write_text(AGENTS)
    (tmp_path / "system.md").write_text('Answer as {"json": true}.\r\nBe brief.', newline="")
    (tmp_path / "texts.json").write_text('{"a": {"b.c": "dotted"}, "list": ["first", "second"]}')
    return tmp_path


def _bound(**texts: str) -> Binding:
    resources = {name.replace("__", "."): PromptTemplate(text) for name, text in texts.items()}
    return Binding(resources=resources)  # type: ignore[arg-type]


def test_fields_and_whole_files_are_declared_with_their_texts(project: Path) -> None:
    declare_prompt_files(
        project,
        [
            PromptFile(path="agents.yaml", fields=("planner.role", "planner.goal")),
            PromptFile(path="system.md", name="rules"),
            PromptFile(path="texts.json", fields=("a.b.c", "list.1")),
        ],
    )
    found = {name: one.resource for name, one in declarations().items()}
    assert found == {
        "agents.planner.role": PromptTemplate("Planner of journeys\n"),
        "agents.planner.goal": PromptTemplate("Plan {city}"),
        "rules": PromptTemplate('Answer as {"json": true}.\r\nBe brief.', "plain"),
        "texts.a.b.c": PromptTemplate("dotted"),
        "texts.list.1": PromptTemplate("second"),
    }
    assert declarations()["rules"].file == str(project / "system.md")


def test_whoever_opens_the_file_reads_the_bound_text_and_everyone_else_the_files(
    project: Path,
) -> None:
    declare_prompt_files(project, [PromptFile(path="agents.yaml", fields=("planner.goal",))])
    path = project / "agents.yaml"
    with bound(_bound(agents__planner__goal='Say "yes"')):
        for text in (
            path.read_text(),
            path.read_bytes().decode(),
            open(path).read(),  # noqa: SIM115
            io.open(str(path), encoding="utf-8").read(),  # noqa: SIM115, UP020
        ):
            found = yaml.safe_load(text)
            assert found["planner"]["goal"] == 'Say "yes"'
            assert found["planner"]["backstory"] == "You know\n  each train."
            assert "# The crew." in text
            assert "# keep" in text
    assert path.read_text() == AGENTS


def test_a_text_that_is_bound_to_the_sources_own_opens_the_file_itself(project: Path) -> None:
    declare_prompt_files(project, [PromptFile(path="agents.yaml", fields=("planner.goal",))])
    with bound(_bound(agents__planner__goal="Plan {city}")), open(str(project / "agents.yaml")) as file:
        assert file.name == str(project / "agents.yaml")


def test_a_whole_file_keeps_its_byte_order_mark_and_the_texts_own_line_ends(project: Path) -> None:
    (project / "bom.txt").write_bytes(b"\xef\xbb\xbfold text")
    declare_prompt_files(project, [PromptFile(path="bom.txt")])
    with bound(_bound(bom="new\r\ntext")):
        assert (project / "bom.txt").read_bytes() == b"\xef\xbb\xbfnew\r\ntext"


def test_writing_the_file_is_not_touched(project: Path) -> None:
    declare_prompt_files(project, [PromptFile(path="system.md")])
    with bound(_bound(system="bound")):
        (project / "system.md").write_text("written")
        assert (project / "system.md").read_text() == "bound"
    assert (project / "system.md").read_text() == "written"


def test_a_link_to_the_file_is_the_file(project: Path) -> None:
    (project / "link.md").symlink_to("system.md")
    declare_prompt_files(project, [PromptFile(path="link.md")])
    with bound(_bound(link="bound")):
        assert (project / "system.md").read_text() == "bound"
        assert (project / "link.md").read_text() == "bound"


def test_no_copy_is_left_behind(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    declare_prompt_files(project, [PromptFile(path="system.md")])
    with bound(_bound(system="bound")):
        (project / "system.md").read_text()
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (PromptFile(path="gone.md"), "gone.md cannot be read"),
        (PromptFile(path="../out.md"), "outside the project"),
        (PromptFile(path="agents.yaml", fields=("planner.gaol",)), "no field 'planner.gaol'"),
        (PromptFile(path="agents.yaml", fields=("planner",)), "planner in agents.yaml is no text"),
        (PromptFile(path="system.md", fields=("a",)), "only YAML, TOML and JSON"),
    ],
)
def test_what_cannot_be_declared_is_a_sentence(
    project: Path, file: PromptFile, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        declare_prompt_files(project, [file])


def test_a_file_that_does_not_parse_is_a_sentence(project: Path) -> None:
    (project / "bad.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"bad\.yaml does not parse"):
        declare_prompt_files(project, [PromptFile(path="bad.yaml", fields=("a",))])


def test_a_text_that_stands_in_two_places_is_refused(project: Path) -> None:
    source = json.dumps({"a": "same", "b": "same"})
    with pytest.raises(InputError, match=r"2 places of x\.json"):
        with_texts(source, "x.json", {"x.a": "same"}, {"x.a": "new"})
