"""A prompt of an agent in any language: found by its text, released as a patch, rolled back."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.ship import find_literal, make_patch, refresh, rollback, ship
from ratchet.source.javascript_prompts import declared_prompts
from ratchet.types import (
    Candidate,
    Conflict,
    Declaration,
    Params,
    PromptTemplate,
    Release,
    ShipError,
    defaults,
)

from .conftest import DECISION, NOW, Project

NAME = "support.system"
OLD = "You are a booking assistant for ACME.\nToday is {date}.\nAnswer in one sentence."
NEW = (
    'You book rooms for ACME. Say "sorry" in `code` for ${{x}}.\nToday is {date}.\n'
    "Answer in two sentences."
)

AGENT = """\
// The agent: You are a booking assistant for ACME.
const company = "ACME";
function prompt(today) {
  return `You are a booking assistant for ${company}.
Today is ${today}.
Answer in one sentence.`;
}
module.exports = { prompt };
if (require.main === module) console.log(prompt(process.argv[2]));
"""


@dataclass
class Agent(Project):
    """A repository with an agent that is a command."""

    def made(self, old: str = OLD, new: str = NEW) -> dict[str, Any]:
        before = PromptTemplate(old)
        baseline = Candidate.of({NAME: before})
        return {
            "baseline": baseline,
            "candidate": baseline.derive({NAME: PromptTemplate(new)}, algorithm="APO"),
            "declarations": {NAME: Declaration(NAME, before, located_by="text")},
        }

    def patch(self, old: str = OLD, new: str = NEW) -> str:
        """The one file that a patch changes, afterwards."""
        patch = make_patch(**self.made(old, new), root=self.root)
        ((path, (before, after)),) = patch.files.items()
        assert before == (self.root / path).read_bytes()
        return after.decode()

    def release(self, old: str = OLD, new: str = NEW) -> Release:
        return ship(
            repo=self.root,
            **self.made(old, new),
            decision=DECISION,
            evidence_path=self.root.parent / "evidence.json",
            experiment_id="experiment-1",
            out_dir=self.root.parent / "out",
            now=NOW,
            agent_entry="node agent.js",
        )

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def state_of(self, path: str) -> tuple[str, str, bytes]:
        """All that a release must leave as it is."""
        return self.git("rev-parse", "HEAD"), self.git("status", "--porcelain"), self.read(path)

    def places(self, text: str = OLD) -> list[str]:
        return [str(place) for place in find_literal(self.root, PromptTemplate(text)).places]


@pytest.fixture
def make_agent(tmp_path: Path) -> Callable[..., Agent]:
    """Make a repository of files."""

    def make(**files: str | bytes) -> Agent:
        root = tmp_path / "repo"
        root.mkdir()
        agent = Agent(root)
        agent.git("init", "--quiet")
        for path, content in files.items():
            agent.write(path, content)
        agent.commit("first")
        (tmp_path / "evidence.json").write_text("{}")
        return agent

    return make


@pytest.fixture
def agent(make_agent: Callable[..., Agent]) -> Agent:
    return make_agent(**{"agent.js": AGENT, "README.md": OLD[:60]})


def test_a_release_of_an_agent_in_javascript_is_a_branch_that_says_the_new_prompt(
    agent: Agent, tmp_path: Path
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    before = agent.state_of("agent.js")
    release = agent.release()
    assert agent.state_of("agent.js") == before
    assert agent.git("diff", "--name-only", release.base, release.commit) == "agent.js"
    patched = tmp_path / "patched.cjs"
    patched.write_text(agent.git("show", f"{release.branch}:agent.js"))
    done = subprocess.run([node, patched, "Monday"], capture_output=True, text=True, check=True)
    assert done.stdout == PromptTemplate(NEW).format(date="Monday") + "\n"
    text = Path(release.pull_request).read_text()
    assert "Prompt `support.system`: see the patch below." in text
    assert "+Today is ${today}." not in text  # that line is as it was
    assert agent.release() == release


def test_a_merged_release_is_recognised_and_rolled_back(agent: Agent) -> None:
    release = agent.release()
    assert refresh(release, agent.root) is release
    agent.git("merge", "--quiet", release.branch)
    # Lines around it may move; the literal is found by what it says.
    agent.write("agent.js", b"'use strict';\n" + agent.read("agent.js"))
    agent.commit("more")
    merged = refresh(release, agent.root)
    assert merged.state == "merged"
    undone = rollback(merged, agent.root, NOW)
    assert undone.state == "rolled_back"
    assert agent.git("show", f"{undone.rollback}:agent.js") == ("'use strict';\n" + AGENT).strip()
    agent.git("merge", "--quiet", undone.rollback)
    assert refresh(merged, agent.root).state == "rolled_back"
    with pytest.raises(Conflict, match="already rolled back"):
        rollback(undone, agent.root, NOW)


def test_a_literal_that_changed_after_the_merge_is_not_rolled_back(agent: Agent) -> None:
    release = agent.release()
    agent.git("merge", "--quiet", release.branch)
    agent.write("agent.js", agent.read("agent.js").replace(b"two sentences", b"three sentences"))
    agent.commit("mine")
    with pytest.raises(ShipError, match=r"agent.js: support.system.text changed since release"):
        rollback(refresh(release, agent.root), agent.root, NOW)


def test_a_branch_of_that_name_with_another_text_is_refused(agent: Agent) -> None:
    release = agent.release()
    agent.git("switch", "--quiet", release.branch)
    agent.write("agent.js", agent.read("agent.js").replace(b"two sentences", b"ten sentences"))
    agent.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    agent.git("switch", "--quiet", "main")
    with pytest.raises(ShipError, match="exists with different content"):
        agent.release()


def test_a_declarations_file_decides_between_two_literals(agent: Agent, tmp_path: Path) -> None:
    agent.write("copy.js", AGENT)
    agent.commit("a copy")
    with pytest.raises(ShipError, match=r"is in 2 places in the source: agent.js:4, copy.js:4"):
        agent.patch()
    made = agent.made()
    declared = made["declarations"][NAME]
    for file in ("copy.js", "agent.js"):
        path = str(agent.root / file)
        made["declarations"] = {NAME: msgspec.structs.replace(declared, file=path)}
        assert list(make_patch(**made, root=agent.root).files) == [file]
    outside = msgspec.structs.replace(declared, file=str(tmp_path / "x.js"))
    with pytest.raises(ShipError, match="outside the repository"):
        make_patch(**{**made, "declarations": {NAME: outside}}, root=agent.root)


def test_a_declared_resource_in_the_same_file_stays_as_it_is(
    make_agent: Callable[..., Agent],
) -> None:
    source = f"import ratchet\nK = ratchet.params('k', n=ratchet.Int(1, 0, 9))\nP = {NEW!r}\n"
    agent = make_agent(**{"agent.py": source}).load()
    old, new = PromptTemplate(NEW), PromptTemplate(NEW + " Please.")
    declarations = {**agent.declarations, "p": Declaration("p", old, located_by="text")}
    baseline = Candidate.of({**defaults(agent.declarations), "p": old})
    knobs = baseline.resources["k"]
    assert isinstance(knobs, Params)
    text_only = baseline.derive({"p": new}, algorithm="APO")
    patch = make_patch(baseline, text_only, declarations, agent.root)
    assert patch.files["agent.py"][1].decode() == source.replace("sentences.", "sentences. Please.")
    both = baseline.derive({"p": new, "k": knobs.replace(n=2)}, algorithm="APO")
    patch = make_patch(baseline, both, declarations, agent.root)
    changed = source.replace("sentences.", "sentences. Please.").replace("Int(1", "Int(2")
    assert patch.files["agent.py"][1].decode() == changed


def test_other_resources_are_not_found_by_text(agent: Agent) -> None:
    from ratchet.types import Int, Params

    old = Params({"k": Int(2, 1, 9)})
    new = old.replace(k=3)
    baseline = Candidate.of({"m": old})
    with pytest.raises(ShipError, match="nothing else is found by its text"):
        make_patch(
            baseline,
            baseline.derive({"m": new}, algorithm="Tune"),
            {"m": Declaration("m", old, located_by="text")},
            agent.root,
        )


DECLARED = """\
import * as ratchet from "agent-ratchet";

export const first = ratchet.prompt(
  "first", `Answer {name} with {{"a": 1}}, and say why that is so.`);
export const second = ratchet.prompt("second", 'Answer with {"a": 1}, and say why.', {
  engine: "plain",
});
"""


def declared_change(agent: Agent, name: str, new: PromptTemplate) -> str:
    """What a patch of one prompt that the source declares makes of the file."""
    found = declared_prompts(agent.root.resolve(), [agent.root.resolve() / "agent.mjs"])
    declarations = {
        one.name: Declaration(one.name, one.template, str(one.file), one.line, located_by="text")
        for one in found
    }
    baseline = Candidate.of(defaults(declarations))
    candidate = baseline.derive({name: new}, algorithm="APO")
    patch = make_patch(baseline, candidate, declarations, agent.root)
    ((_, (_, after)),) = patch.files.items()
    return after.decode()


def test_a_prompt_that_javascript_declares_is_patched_by_its_name(
    make_agent: Callable[..., Agent],
) -> None:
    copy = 'export const old = `Answer {name} with {{"a": 1}}, and say why that is so.`;\n'
    agent = make_agent(**{"agent.mjs": DECLARED, "old.mjs": copy})
    made = declared_change(agent, "second", PromptTemplate('Say {"b": `2`}', "plain"))
    assert made == DECLARED.replace('Answer with {"a": 1}, and say why.', 'Say {"b": `2`}')
    new = PromptTemplate("Tell {name} in {{`ticks`}} why that is so.")
    made = declared_change(agent, "first", new)
    old = 'Answer {name} with {{"a": 1}}, and say why that is so.'
    assert made == DECLARED.replace(old, "Tell {name} in {{\\`ticks\\`}} why that is so.")
