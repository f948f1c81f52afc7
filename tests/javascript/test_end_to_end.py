"""Programs with the npm package, beside a real server: what they did is in its store."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from ratchet.client import Client
from ratchet.types import Candidate, Params, PromptTemplate, Rollout, TrafficSplit, arm_of
from ratchet.types.knobs import Int
from ratchet.types.resource import short_version
from ratchet.types.template import Engine
from tests import interpreters
from tests.javascript.built import environment, ran
from tests.javascript.conftest import Site
from tests.node_packages import node

pytestmark = pytest.mark.xdist_group("node")

AGENT = """
import { agent, init, params, prompt, tool } from "agent-ratchet";

export const handle = init();
const system = prompt("system", "You find rooms. {policy}");
const search = params("search", { people: 2 });
const find = tool(async function findRooms({ people }) {
  return [{ name: "Cedar", seats: people + 2 }];
});
const booking = async ({ room }) => ({ booked: room });
export const book = tool(booking, { name: "book", sideEffects: true });
export const answer = agent(async (question) => {
  const [room] = await find({ people: search.people });
  return `${system.format({ policy: "Be brief." })} ${room.name} has ${room.seats}: ${question}`;
}, { name: "rooms" });
"""


def program(folder: Path, rest: str) -> str:
    (folder / "agent.mjs").write_text(AGENT)
    return 'import { handle, answer, book } from "./agent.mjs";\n' + rest


def live(site: Site, folder: Path, rest: str, name: str) -> Any:
    return ran(folder, program(folder, rest), RATCHET_AGENT=name, **site.variables())


def better() -> Candidate:
    return Candidate.of(
        {
            "system": PromptTemplate("You find rooms quickly. {policy}"),
            "search": Params({"people": Int(2, 1, 20)}, {"people": 6}),
        },
        reason="Proved better.",
    )


def test_a_call_is_one_trace_in_the_store(site: Site, folder: Path) -> None:
    name = f"a-{uuid.uuid4().hex}"
    rest = """
    import { conversation, current, feedback, trace } from "agent-ratchet";
    const question = "Which room? My key is " + process.env.SECRET;
    const text = await conversation("talk", () => answer(question), { user: "ada" });
    const traceId = await trace("another", () => current().traceId);
    feedback({ thumbs: "down", traceId, comment: "No." });
    console.log(JSON.stringify([text, traceId]));
    """
    secret = f"sk-{secrets.token_hex(20)}"
    variables = {"RATCHET_AGENT": name, "SECRET": secret, **site.variables()}
    text, trace_id = ran(folder, program(folder, rest), **variables)
    assert text.startswith("You find rooms. Be brief. Cedar has 4: ")
    spans, _ = site.store.spans.live(name)
    found = {span.name: span for span in spans}
    assert set(found) == {"rooms", "findRooms", "another"}
    root, tool = found["rooms"], found["findRooms"]
    assert (tool.trace_id, tool.parent_id) == (root.trace_id, root.span_id)
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["gen_ai.conversation.id"] == "talk"
    assert tool.attributes["user.id"] == "ada"
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"people": 2}
    assert json.loads(tool.attributes["gen_ai.tool.call.result"]) == [{"name": "Cedar", "seats": 4}]
    # The server redacts what arrives.
    assert "Which room?" in root.attributes["ratchet.input"]
    assert secret not in root.attributes["ratchet.input"]
    (given,), _ = site.store.feedback.list(trace_id=trace_id)
    assert (given.kind, given.value, given.comment) == ("thumbs", 0.0, "No.")


def test_it_runs_the_release_and_goes_back(site: Site, folder: Path) -> None:
    name = f"a-{uuid.uuid4().hex}"
    candidate = better()
    site.store.candidates.put(candidate, time.time())
    rest = """
    await handle.ready();
    console.log(JSON.stringify(await answer("x")));
    """
    own = "You find rooms. Be brief. Cedar has 4: x"
    released = "You find rooms quickly. Be brief. Cedar has 8: x"
    assert live(site, folder, rest, name) == own
    with Client(site.url, site.store.keys.create("a", ["admin"], time.time(), None)[1]) as client:
        client.agents.activate(name, candidate.id)
        assert live(site, folder, rest, name) == released
        # Without waiting, a later process begins with what was read last.
        assert live(site, folder, rest.replace("await handle.ready();", ""), name) == released
        client.agents.activate(name, "")
        assert live(site, folder, rest, name) == own
    spans, _ = site.store.spans.live(name)
    ran_with = {
        (s.attributes.get("ratchet.candidate_id"), *s.attributes["ratchet.resources"])
        for s in spans
        if s.name == "rooms"
    }
    own_version = short_version(PromptTemplate("You find rooms. {policy}"))
    assert ran_with == {
        (None, f"system@{own_version}"),
        (candidate.id, f"system@{short_version(candidate.resources['system'])}"),
    }


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ('Ünï “quoted” "text" \\ / {{x}} 🦀\u2028', "f-string"),
        ("tab\t line\n\r \x00\x1f\x7f <&>", "f-string"),
        ('Answer {"a": 1}.', "plain"),
    ],
)
def test_a_prompt_has_the_version_that_it_has_in_python(
    site: Site, folder: Path, text: str, engine: Engine
) -> None:
    name = f"a-{uuid.uuid4().hex}"
    source = f"""
    import {{ init, prompt, trace }} from "agent-ratchet";
    const handle = init();
    prompt("odd", {json.dumps(text)}, {{ engine: "{engine}" }});
    prompt("other", "b");
    trace("call", () => undefined);
    console.log(JSON.stringify(await handle.flush()));
    """
    assert ran(folder, source, RATCHET_AGENT=name, **site.variables()) is True
    ((call,), _) = site.store.spans.live(name)
    assert call.attributes["ratchet.resources"] == [
        f"odd@{short_version(PromptTemplate(text, engine))}",
        f"other@{short_version(PromptTemplate('b'))}",
    ]


def test_a_canary_gives_each_conversation_the_arm_that_python_computes(
    site: Site, folder: Path
) -> None:
    name = f"a-{uuid.uuid4().hex}"
    candidate = better()
    site.store.candidates.put(candidate, time.time())
    split = TrafficSplit(
        agent=name, experiment_id="e1", candidate_id=candidate.id, enrolled=0.6, started_at=1.0
    )
    site.store.traffic.put(split)
    rest = """
    import { conversation } from "agent-ratchet";
    await handle.ready();
    const said = {};
    for (let n = 0; n < 30; n++) said["c" + n] = await conversation("c" + n, () => answer("x"));
    console.log(JSON.stringify(said));
    """
    said = live(site, folder, rest, name)
    arms = {unit: arm_of(split, unit) for unit in said}
    assert set(arms.values()) == {"candidate", "baseline", None}
    for unit, text in said.items():
        assert ("quickly" in text) == (arms[unit] == "candidate"), unit
    spans, _ = site.store.spans.live(name)
    roots = [span for span in spans if span.name == "rooms"]
    recorded = {
        s.attributes["gen_ai.conversation.id"]: s.attributes.get("ratchet.arm") for s in roots
    }
    assert recorded == arms


def test_a_wrong_key_is_a_sentence_and_no_harm(site: Site, folder: Path) -> None:
    rest = 'console.log(JSON.stringify(await answer("x")));'
    variables = {"RATCHET_URL": site.url, "RATCHET_KEY": f"rk_{'x' * 40}", "RATCHET_AGENT": "wrong"}
    assert ran(folder, program(folder, rest), **variables).startswith("You find rooms.")
    assert site.store.spans.live("wrong")[0] == []


def in_rollout(site: Site, folder: Path, rest: str, **fields: Any) -> Rollout:
    """Run a program by `ratchet runner`; the rollout that it ran."""
    queue = f"q-{uuid.uuid4().hex}"
    rollout = Rollout(id=uuid.uuid4().hex, queue=queue, task_id="t", input="x", **fields)
    site.store.rollouts.create([rollout], time.time())
    path = folder / "rollout.mjs"
    path.write_text(program(folder, rest))
    command = [sys.executable, "-m", "ratchet", "runner", "--server", site.url, "--queue", queue]
    command += ["--max-idle", "1", "--json", "--command", shlex.join([node(), str(path)])]
    environ = environment(RATCHET_KEY=site.runner_key)
    done = interpreters.run(command, env=environ, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return site.store.rollouts.get([rollout.id])[rollout.id]


def test_a_rollout_runs_its_candidate_and_its_spans_are_the_attempts(
    site: Site, folder: Path
) -> None:
    candidate = better()
    site.store.candidates.put(candidate, time.time())
    rest = 'console.log(JSON.stringify(await answer("x"))); process.exit(0);'
    found = in_rollout(site, folder, rest, candidate_id=candidate.id)
    assert found.status == "succeeded", found.error
    assert found.output == "You find rooms quickly. Be brief. Cedar has 8: x"
    spans = site.store.spans.of(found.id)
    (root,) = [span for span in spans if span.parent_id is None]
    (agent,) = [span for span in spans if span.name == "rooms"]
    (tool,) = [span for span in spans if span.name == "findRooms"]
    assert (agent.parent_id, tool.parent_id) == (root.span_id, agent.span_id)
    assert len({span.trace_id for span in spans}) == 1


def test_a_rollout_that_would_act_ends_as_inconclusive(site: Site, folder: Path) -> None:
    rest = 'console.log(await book({ room: "Elm" }).catch(() => "went on"));'
    found = in_rollout(site, folder, rest, candidate_id="")
    assert found.status == "inconclusive"
    assert found.error is not None
    assert "book" in found.error


def test_a_rollout_gets_the_recorded_result(site: Site, folder: Path) -> None:
    rest = 'console.log(JSON.stringify(await book({ room: "Elm" })));'
    replay = [["book", '{"room":"Elm"}', '{"booked":"as recorded"}']]
    found = in_rollout(site, folder, rest, candidate_id="", metadata={"ratchet.replay": replay})
    assert found.status == "succeeded", found.error
    assert found.output == {"booked": "as recorded"}
