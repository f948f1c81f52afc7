"""A program that declares its prompts with the npm package is improved by one command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.cli.simulated_model import answer, completion
from tests.cli.test_any_language import CONFIG, NO_GUARDRAILS, PRODUCTS
from tests.node_packages import node
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply

pytestmark = [pytest.mark.xdist_group("node"), pytest.mark.long]

AGENT = """\
import { readFileSync } from "node:fs";
import * as ratchet from "agent-ratchet";

// A message of the user, which the gateway never replaces.
const RULES = ratchet.prompt("rules", `You answer for the \\`shop\\`, {{briefly}} and well.`);

const { input } = JSON.parse(readFileSync(0, "utf8"));
const messages = [RULES.format(), input].map((content) => ({ role: "user", content }));
const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
  method: "POST",
  headers: {
    "content-type": "application/json",
    authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
  },
  body: JSON.stringify({ model: "m", messages }),
});
console.log((await response.json()).choices[0].message.content);
"""


def script(seen: Seen, wire: Wire) -> None:
    """Answer by the first message of the user."""
    first, last = (one["content"] for one in seen.json["messages"])
    wire.send(reply(completion(answer(first, last))))


def test_a_declared_prompt_is_improved_where_the_gateway_does_not_reach(
    package: Path, tmp_path: Path
) -> None:
    node()
    root = tmp_path / "shop"
    (root / "node_modules").mkdir(parents=True)
    (root / "node_modules" / "agent-ratchet").symlink_to(package, target_is_directory=True)
    project = Project(root)
    upstream = StubUpstream(script)
    try:
        config = CONFIG.format(
            agent='command = "node agent.mjs"',
            dialect="openai",
            upstream=upstream.url,
            port=0,
            run="",
        )
        project.write("ratchet.toml", config + NO_GUARDRAILS)
        project.write(".gitignore", "node_modules/\n")
        project.write("agent.mjs", AGENT)
        lines = [
            json.dumps(
                {"id": f"t{n}", "input": f"question {n}: {product}", "expected": product.upper()}
            )
            for n, product in enumerate(PRODUCTS * 3)
        ]
        project.write("tasks.jsonl", "\n".join(lines) + "\n")
        project.git("init", "-q", "-b", "main")
        project.commit("agent")
        found = project.json("improve")
    finally:
        upstream.close()
    assert found["verdict"] == "promote", found
    assert (found["baseline"], found["candidate"]) == (0.0, 1.0)
    patched = project.git("show", f"{found['branch']}:agent.mjs")
    assert "You answer for the \\`shop\\`, {{briefly}} and well.\n" in patched
    assert re.search(r"Output: [A-Z]+", patched)
    changed = project.git("diff", "--stat", f"main..{found['branch']}")
    assert re.fullmatch(r" agent\.mjs \| +\d+ .*\n 1 file changed, .*\n", changed)
