"""Agents that a module makes and that nothing in its code runs: what runs them for a task."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ratchet.wire import look
from ratchet.wire.recommending import recommend
from tests.wire.look_alike import LONG, LookAlike
from tests.wire.test_javascript_entry import after, wired

PACKAGE = '{"type": "module", "dependencies": {"@mastra/core": "1", "ai": "6", "openai": "6"}}\n'
LIBRARIES = {
    "@mastra/core": (
        "export class Agent { constructor(given) { Object.assign(this, given); }\n"
        "  async generate(text) { return { text: `${this.mastra} ${text}` }; } }\n"
        "export class Mastra { constructor({ agents }) { this.agents = agents;\n"
        "  for (const one of Object.values(agents)) one.mastra = 'with'; }\n"
        "  getAgent(name) { return this.agents[name]; } }\n"
    ),
    "ai": (
        "export class ToolLoopAgent { async generate({ prompt }) { return { text: prompt }; } }\n"
        "export const streamText = ({ messages }) => messages[0].parts[0].text;\n"
    ),
    "openai": "export default class {}\n",
}
ROUTE = """\
import OpenAI from 'openai';
const client = new OpenAI();
export async function POST(request) {
  const { TAKEN } = await request.json();
  if (CONDITION) {
    await client.chat.completions.create({ model: 'm', messages: [
      { role: 'system', content: 'You plan the shelves of a library and explain each choice.' }] });
  }
  RETURNED
}
"""
ROUTES = {
    "messages": ("messages", "!messages", "return Response.json(messages[0].content);", "owls"),
    "another name": ("question", "!question", "return new Response(question);", "owls"),
    "a stream": (
        "messages",
        "!messages",
        'return new Response(\'data: {"type":"start"}\\n\\n'
        'data: {"type":"text-delta","delta":"a"}\\n\\n'
        'data: {"type":"text-delta","delta":"b"}\\n\\ndata: [DONE]\\n\');',
        "ab",
    ),
}


def _ran(root: Path, files: dict[str, str], entry: str, given: Any) -> Any:
    """What the runner of an entry prints for a task, under Node and with stand-ins as libraries."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    step, _ = wired(root, {**files, "package.json": PACKAGE}, entry)
    for path, text in after(root, step).items():
        (root / path).write_text(text)
    for name, source in LIBRARIES.items():
        folder = root / "node_modules" / name
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"type": "module", "main": "index.js"}')
        (folder / "index.js").write_text(source)
    done = subprocess.run(
        [node, "ratchet_agent.mjs"],
        cwd=root,
        input=json.dumps({"input": given}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_agent_of_mastra_runs_within_its_mastra(tmp_path: Path) -> None:
    files = {
        "src/mastra/agents/shelf.js": (
            "import { Agent } from '@mastra/core';\n"
            f"export const shelf = new Agent({{ name: 'shelf', instructions: '{LONG}' }});\n"
        ),
        "src/mastra/index.js": (
            "import { Mastra } from '@mastra/core';\nimport { shelf } from './agents/shelf.js';\n"
            "export const mastra = new Mastra({ agents: { shelf } });\n"
        ),
    }
    assert _ran(tmp_path, files, "shelf", "owls") == "with owls"


def test_an_agent_of_the_ai_sdk_is_given_a_prompt(tmp_path: Path) -> None:
    made = (
        "import { ToolLoopAgent } from 'ai';\n"
        f"export const shelf = new ToolLoopAgent({{ instructions: '{LONG}' }});\n"
    )
    assert _ran(tmp_path, {"agent.js": made}, "shelf", {"message": "owls"}) == "owls"


@pytest.mark.parametrize("case", ROUTES)
def test_a_route_of_next_is_given_a_request(case: str, tmp_path: Path) -> None:
    taken, condition, returned, expected = ROUTES[case]
    text = ROUTE.replace("TAKEN", taken).replace("CONDITION", condition)
    files = {"app/(shelves)/api/ask/route.js": text.replace("RETURNED", returned)}
    assert _ran(tmp_path, files, "POST", "owls") == expected


AGENTS = {
    "openai-agents": (
        f"from agents import Agent\ndesk = Agent(name='desk', instructions='{LONG}')\n",
        "Runner.run(desk, message)",
    ),
    "pydantic-ai": (
        f"from pydantic_ai import Agent\ndesk = Agent('m', system_prompt='{LONG}')\n",
        "desk.run(message)",
    ),
    "autogen": (
        "from autogen_agentchat.agents import AssistantAgent\n"
        f"desk = AssistantAgent('desk', None, system_message='{LONG}')\n",
        "desk.run(task=message)",
    ),
    "ag2": (
        "from autogen import ConversableAgent\n"
        f"desk = ConversableAgent('desk', system_message='{LONG}')\n",
        "desk.a_generate_reply(",
    ),
    "ag2's later agents": (
        f"from autogen.beta import Agent\ndesk = Agent('desk', prompt='{LONG}')\n",
        "desk.ask(message)",
    ),
    "llama-index": (
        "import asyncio\nfrom llama_index.core.agent.workflow import AgentWorkflow\n"
        f"desk = AgentWorkflow.from_tools_or_functions([print], system_prompt='{LONG}')\n"
        "async def main():\n    print(await desk.run(user_msg='Where are the owls?'))\n"
        "if __name__ == '__main__':\n    asyncio.run(main())\n",
        "desk.run(user_msg=message)",
    ),
    "google-adk": (
        "from google.adk.agents import Agent\n"
        f"root_agent = Agent(name='desk', model='m', instruction='{LONG}')\n",
        "InMemoryRunner(agent=root_agent)",
    ),
}


@pytest.mark.parametrize("case", AGENTS)
def test_an_agent_that_nothing_runs_is_run_with_a_message(case: str, tmp_path: Path) -> None:
    source, run = AGENTS[case]
    root = LookAlike("made", {"desk.py": source}, "", "", ()).write(tmp_path)
    text = _adapter(root)
    assert run in text
    ast.parse(text)


def test_an_agent_with_dependencies_is_refused_with_what_to_write(tmp_path: Path) -> None:
    source = (
        f"from pydantic_ai import Agent\ndesk = Agent('m', deps_type=int, system_prompt='{LONG}')\n"
    )
    root = LookAlike("made", {"desk.py": source}, "", "", ()).write(tmp_path)
    assert "needs dependencies that only the program has" in _adapter(root)


def test_a_file_that_no_import_can_name_is_refused(tmp_path: Path) -> None:
    source, _ = AGENTS["google-adk"]
    root = LookAlike("made", {"1-desk.py": source}, "", "", ()).write(tmp_path)
    assert "no import statement can name 1-desk.py" in _adapter(root)


def _adapter(root: Path) -> str:
    """The adapter of the likeliest entry, or why there is none."""
    from ratchet.wire.entry import wire_entry

    facts = look(root)
    choices = recommend(facts).choices
    assert choices is not None
    assert choices.entry.kind == "agent"
    step = wire_entry(root, facts, choices)
    made = [one.content for one in step.changes.files if one.path == "ratchet_agent.py"]
    return made[0] or "" if made else " ".join(one.why for one in step.changes.left_alone)
