"""Wires small repositories and runs them with their real frameworks, each in its own environment.

`python -m tests.wire.real_frameworks [NAME …]`; one JSON line at the end. Each repository runs
twice: with a tool that only reads, which must answer, and with one that acts, which must not.
"""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.frameworks.environments import CannotInstall, python_of
from tests.frameworks.model_simulator import ModelSimulator
from tests.frameworks.table import FRAMEWORKS
from tests.wire.entries import LONG, wire

QUESTION = "What is the weather in Paris?"
ANSWER = "The weather in Paris: 18 C."
ACTING = "    subprocess.run(['touch', 'acted'])\n    return '18 C'\n"
READING = "    return '18 C'\n"
WEATHER = 'def get_weather(city: str) -> str:\n    """Weather of a city."""\n'


class Repository(NamedTuple):
    """A repository whose tool is `{tool}`."""

    framework: str
    files: dict[str, str]
    entry: str
    input: str = QUESTION


REPOSITORIES = (
    Repository(
        "langgraph",
        {
            "src/flow.py": (
                "import subprocess\nfrom langchain_core.tools import tool\n"
                "from langchain_openai import ChatOpenAI\n"
                "from langgraph.graph import START, MessagesState, StateGraph\n"
                "from langgraph.prebuilt import ToolNode, tools_condition\n"
                f"RULES = '{LONG}'\n@tool\n{WEATHER}{{tool}}"
                "class Flow:\n    def __init__(self):\n"
                "        self.model = ChatOpenAI(model='gpt-4o-mini').bind_tools([get_weather])\n"
                "        graph = StateGraph(MessagesState)\n"
                "        graph.add_node('assistant', self.think)\n"
                "        graph.add_node('tools', ToolNode([get_weather]))\n"
                "        graph.add_edge(START, 'assistant')\n"
                "        graph.add_conditional_edges('assistant', tools_condition)\n"
                "        graph.add_edge('tools', 'assistant')\n"
                "        self.app = graph.compile()\n"
                "    def think(self, state: MessagesState):\n"
                "        return {'messages': [self.model.invoke([('system', RULES), *state['messages']])]}\n"
            ),
            "main.py": "from src.flow import Flow\nprint(Flow().app.invoke({'messages': []}))\n",
        },
        "Flow",
    ),
    Repository(
        "langgraph",
        {
            "flow.py": (
                "import subprocess\nfrom langchain_core.tools import BaseTool\n"
                "from langchain_openai import ChatOpenAI\n"
                "from langgraph.graph import START, MessagesState, StateGraph\n"
                "from langgraph.prebuilt import ToolNode, tools_condition\n"
                f"RULES = '{LONG}'\n"
                "class Weather(BaseTool):\n    name: str = 'get_weather'\n"
                "    description: str = 'Weather of a city.'\n"
                "    def _run(self, city: str) -> str:\n    {tool}"
                "model = ChatOpenAI(model='gpt-4o-mini').bind_tools([Weather()])\n"
                "async def think(state: MessagesState):\n"
                "    return {'messages': [await model.ainvoke([('system', RULES), *state['messages']])]}\n"
                "builder = StateGraph(MessagesState)\nbuilder.add_node('assistant', think)\n"
                "builder.add_node('tools', ToolNode([Weather()]))\nbuilder.add_edge(START, 'assistant')\n"
                "builder.add_conditional_edges('assistant', tools_condition)\n"
                "builder.add_edge('tools', 'assistant')\ngraph = builder.compile()\n"
            ),
            "langgraph.json": '{"graphs": {"flow": "./flow.py:graph"}, "dependencies": ["."]}',
        },
        "graph",
    ),
    Repository(
        "crewai",
        {
            "src/office/__init__.py": "",
            "src/office/crew.py": (
                "import subprocess\nfrom crewai import Agent, Crew, Process, Task\n"
                "from crewai.project import CrewBase, agent, crew, task\nfrom crewai.tools import tool\n"
                f"@tool('get_weather')\n{WEATHER}{{tool}}"
                "@CrewBase\nclass Office:\n    agents_config = 'config/agents.yaml'\n"
                "    tasks_config = 'config/tasks.yaml'\n"
                "    @agent\n    def clerk(self) -> Agent:\n"
                "        return Agent(config=self.agents_config['clerk'], tools=[get_weather], llm='openai/gpt-4o-mini')\n"
                "    @task\n    def tell(self) -> Task:\n        return Task(config=self.tasks_config['tell'])\n"
                "    @crew\n    def crew(self) -> Crew:\n"
                "        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential)\n"
            ),
            "src/office/config/agents.yaml": "clerk:\n  role: clerk\n  goal: tell the weather\n  backstory: a weather office\n",
            "src/office/config/tasks.yaml": "tell:\n  description: 'Answer: {question}'\n  expected_output: a line\n  agent: clerk\n",
            "src/office/main.py": "from office.crew import Office\ndef run():\n    inputs = {'question': 'Will it rain?'}\n    Office().crew().kickoff(inputs=inputs)\n",
            "pyproject.toml": '[project]\nname = "office"\n[project.scripts]\noffice = "office.main:run"\n',
        },
        "run",
    ),
    Repository(
        "llama-index",
        {
            "flow.py": (
                "import subprocess\nfrom llama_index.core.agent.workflow import FunctionAgent\n"
                "from llama_index.core.tools import FunctionTool\n"
                "from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step\n"
                "from llama_index.llms.openai import OpenAI\n"
                "def tools():\n"
                + "    "
                + WEATHER.replace("\n    ", "\n        ")
                + "    {tool}    return [FunctionTool.from_defaults(fn=get_weather)]\n"
                "class Desk(Workflow):\n    @step\n    async def ask(self, ev: StartEvent) -> StopEvent:\n"
                f"        agent = FunctionAgent(name='clerk', system_prompt='{LONG}', tools=tools(),\n"
                "            llm=OpenAI(model='gpt-4o-mini'), streaming=False)\n"
                "        return StopEvent(result={'response': str(await agent.run(ev.question))})\n"
            ),
            "main.py": (
                "import asyncio\nfrom flow import Desk\nasync def main():\n    desk = Desk(timeout=60)\n"
                "    while True:\n        handler = desk.run(question=input('> '))\n"
                "        result = await handler\n        print(result['response'])\n"
                "if __name__ == '__main__':\n    asyncio.run(main())\n"
            ),
        },
        "Desk.ask",
    ),
    Repository(
        "dspy",
        {
            "program.py": (
                f"import subprocess\nimport dspy\n{WEATHER}{{tool}}"
                'class Answer(dspy.Signature):\n    """Answer questions on the weather."""\n'
                "    question: str = dspy.InputField()\n    answer: str = dspy.OutputField()\n"
                "class Desk(dspy.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        self.react = dspy.ReAct(Answer, tools=[get_weather])\n"
                "    def forward(self, question: str):\n        return self.react(question=question)\n"
            ),
            "main.py": (
                "import dspy\nfrom program import Desk\n"
                "def main():\n    lm = dspy.LM('openai/gpt-4o-mini', cache=False)\n    dspy.configure(lm=lm)\n"
                "    print(Desk()(question='Will it rain?').answer)\n"
                "if __name__ == '__main__':\n    main()\n"
            ),
        },
        "Desk",
    ),
)


def main() -> int:
    """Try the frameworks that are asked for; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="frameworks; all by default")
    parser.add_argument("--environments", type=Path, help="a folder of environments by name")
    asked = parser.parse_args()
    passed, failed = [], []
    for number, one in enumerate(REPOSITORIES):
        if asked.name and one.framework not in asked.name:
            continue
        try:
            said = _try(one, _python(one.framework, asked.environments))
        except CannotInstall as error:
            said = str(error)
        (failed if said else passed).append(f"{one.framework} {number}")
        print(f"{'FAILED' if said else 'ok    '} {one.framework}: {one.entry} {said}", flush=True)
    print(json.dumps({"passed": passed, "failed": failed}))
    return 1 if failed else 0


def _python(name: str, environments: Path | None) -> Path:
    if environments is not None:
        return environments / name / "bin" / "python"
    return python_of(next(one for one in FRAMEWORKS if one.name == name))


def _try(one: Repository, python: Path) -> str:
    """What is wrong with a repository; empty if nothing is."""
    told = ""
    for tool, wanted in ((READING, "succeeded"), (ACTING, "inconclusive")):
        with tempfile.TemporaryDirectory() as folder, ModelSimulator() as simulator:
            # A tool's body is indented as deep as its `def` in the file.
            files = {path: _with(text, tool) for path, text in one.files.items()}
            wired = wire(Path(folder), files, one.entry)
            entry, path = wired.config["entry"], wired.config.get("path", ["."])
            (wired.root / "ratchet.toml").write_text(
                f"[agent]\nentry = {json.dumps(entry)}\npath = {json.dumps(path)}\n"
                '[[evaluators]]\nuse = "exact_match"\n[run]\nattempts = 1\n'
            )
            done = subprocess.run(
                [str(python), "-m", "ratchet", "run", one.input],
                cwd=wired.root,
                env=_environment(simulator.url, folder),
                capture_output=True,
                text=True,
                timeout=300,
            )
            said = " ".join(f"{done.stdout} {done.stderr}".split())
            if wanted not in said or (tool is READING and ANSWER not in said):
                told += f"not {wanted}: {said[-1500:]}"
            if (wired.root / "acted").exists():
                told += "its tool acted in a rollout"
    return told


def _with(text: str, tool: str) -> str:
    lines = []
    for line in text.splitlines(keepends=True):
        before, found, after = line.partition("{tool}")
        if found:
            line = "".join(before + each for each in tool.splitlines(keepends=True)) + after
        lines.append(line)
    return "".join(lines)


def _environment(url: str, home: str) -> dict[str, str]:
    foreign = ("OPENAI_", "ANTHROPIC_", "RATCHET_", "LANGCHAIN_", "LANGSMITH_", "OTEL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    kept.pop("PYTHONPATH", None)
    return {
        **kept,
        "HOME": home,
        "OPENAI_API_KEY": "sk-simulated",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


if __name__ == "__main__":
    sys.exit(main())
