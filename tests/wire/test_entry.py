"""The adapter runs the entry of a repository that nobody prepared, as its owner would write it."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ratchet.types import InputError
from ratchet.wire import look
from ratchet.wire.choices import Choices
from ratchet.wire.entry import CannotCall, Modules, task_inputs, wire_entry
from tests.frameworks.model_simulator import ModelSimulator
from tests.wire.entries import LONG, answer, wire, write

CLIENT = f"from openai import OpenAI\nRULES = '{LONG}'\n"
SAID = (
    "    client = OpenAI()\n"
    "    done = client.chat.completions.create(model='m', messages=[\n"
    "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
)
ASK = (
    CLIENT
    + "def ask(question: str) -> str:\n"
    + SAID
    + "    return done.choices[0].message.content\n"
)
SIMULATED = "I have no tool for that."


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A simulator of the model APIs, to which the clients lead."""
    with ModelSimulator() as simulator:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{simulator.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-simulated")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", simulator.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated")
        monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        _forget_connections()
        yield simulator.url
        _forget_connections()


def _forget_connections() -> None:
    """The Agents SDK keeps one HTTP client for the process, and with it a loop that has ended."""
    provider: Any = sys.modules.get("agents.models.openai_provider")
    if provider is not None:
        provider._http_client = None


def _fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A fake framework: a module of that name with these members."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        part = ".".join(parts[:end])
        if part not in sys.modules:
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
    for key, value in members.items():
        monkeypatch.setattr(sys.modules[name], key, value, raising=False)


def test_a_function_is_called_with_the_tasks_input(tmp_path: Path) -> None:
    wired = wire(tmp_path, {"desk.py": ASK}, "ask")
    assert wired.config == {"entry": "ratchet_agent:desk"}
    assert answer(wired, "Where is Emma?") == SIMULATED
    assert answer(wired, {"question": "Where is Emma?"}) == SIMULATED
    assert "question: str) -> str:" in wired.text("ratchet_agent.py")


def test_several_parameters_take_the_keys_of_the_input(tmp_path: Path) -> None:
    code = (
        "from openai import AsyncOpenAI\n"
        f"RULES = '{LONG}'\n"
        "async def ask(question: str, *, shelf: int, tone: str = 'plain', seen=[], log=print):\n"
        "    done = await AsyncOpenAI().chat.completions.create(model='m', messages=[\n"
        "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
        "    return {'said': done.choices[0].message.content, 'shelf': shelf, 'tone': tone}\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    said = answer(wired, {"question": "a", "shelf": 4})
    assert said == {"said": SIMULATED, "shelf": 4, "tone": "plain"}
    assert "seen" not in wired.text("ratchet_agent.py")


def test_what_no_task_can_give_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    code = ASK.replace("question: str", "session, question: str")
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    assert wired.config == {}
    assert "the parameter `session` of ask is not data that a task can give" in wired.left
    assert "Write ratchet_agent.py with one @ratchet.agent function" in wired.left
    assert not (wired.root / "ratchet_agent.py").exists()


def test_a_method_runs_on_an_object_of_its_own_for_each_task(tmp_path: Path) -> None:
    code = (
        CLIENT
        + "class Desk:\n    def __init__(self, floor, name='x'):\n        self.asked = [floor]\n"
        + "    def ask(self, question):\n"
        + SAID.replace("\n    ", "\n        ").replace("    client", "        client", 1)
        + "        self.asked.append(question)\n        return self.asked\n"
        + "def main():\n    desk = Desk(floor=2)\n    while True:\n"
        + "        print(desk.ask(input('> ')))\n"
        + "if __name__ == '__main__':\n    main()\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "main")
    assert answer(wired, "a") == [2, "a"]
    assert answer(wired, "b") == [2, "b"]
    assert "    ratchet.init()\n    main()" in wired.text("desk.py")


def test_an_object_that_only_the_program_can_make_is_refused(tmp_path: Path) -> None:
    code = (
        CLIENT
        + "class Desk:\n    def __init__(self, socket):\n        self.socket = socket\n"
        + "    def ask(self, question):\n"
        + SAID.replace("\n    ", "\n        ").replace("    client", "        client", 1)
        + "        return done.choices[0].message.content\n"
        + "def serve(socket):\n    Desk(socket).ask(socket.receive())\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "Desk.ask")
    assert wired.config == {}
    assert "Desk() needs `socket`, which only the program has" in wired.left


def test_modules_are_imported_from_the_folders_that_they_expect(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project]\nname = "desk"\n',
        "src/desk/__init__.py": "",
        "src/desk/ask.py": "from .rules import RULES\n"
        + ASK.replace(CLIENT, CLIENT.split("\n")[0] + "\n"),
        "src/desk/rules.py": f"RULES = '{LONG}'\n",
    }
    wired = wire(tmp_path, files, "ask")
    assert wired.config["path"] == [".", "src"]
    assert "from desk.ask import ask" in wired.text("ratchet_agent.py")
    assert answer(wired, "a") == SIMULATED


def test_siblings_of_a_script_are_imported_from_its_folder(tmp_path: Path) -> None:
    files = {
        "back/requirements.txt": "openai\n",
        "back/code/main.py": "from asking import ask\nprint(ask)\n" + ASK,
        "back/code/asking.py": "import logging\nfrom logging import getLogger\n" + ASK,
        "back/code/logs.py": "",
    }
    wired = wire(tmp_path, files, "ask", project="back")
    assert wired.config["path"] == [".", "code"]
    assert answer(wired, "a") == SIMULATED


def test_a_package_named_like_a_framework_is_no_folder_of_imports(tmp_path: Path) -> None:
    files = {
        "server.py": "from desk.run import ask\n",
        "desk/__init__.py": "",
        "desk/agents.py": (
            "from agents import Agent\n"
            f"clerk = Agent(name='Clerk', instructions='{LONG}', model='gpt-4o-mini')\n"
        ),
        "desk/run.py": (
            "from agents import Runner\nfrom .agents import clerk\n"
            "async def ask(question: str):\n    return await Runner.run(clerk, question)\n"
        ),
    }
    wired = wire(tmp_path, files, "ask")
    assert "path" not in wired.config
    assert ".final_output" in wired.text("ratchet_agent.py")
    assert answer(wired, "a") == SIMULATED


def test_a_loop_of_the_agents_sdk_becomes_one_run_of_its_first_agent(tmp_path: Path) -> None:
    code = (
        "import asyncio\nfrom dataclasses import dataclass\nfrom agents import Agent, Runner\n"
        "@dataclass\nclass Visit:\n    floor: int = 1\n"
        f"clerk = Agent(name='Clerk', instructions='{LONG}', model='gpt-4o-mini')\n"
        "other = Agent(name='Other', instructions='x', model='gpt-4o-mini')\n"
        "async def main():\n"
        "    current = clerk\n    items = []\n    visit = Visit(floor=3)\n"
        "    while True:\n"
        "        items.append({'role': 'user', 'content': input('> ')})\n"
        "        result = await Runner.run(current, items, context=visit, max_turns=4)\n"
        "        items = result.to_input_list()\n        current = result.last_agent\n"
        "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )
    wired = wire(tmp_path, {"main.py": code}, "main")
    text = wired.text("ratchet_agent.py")
    assert "await Runner.run(current, question, context=visit, max_turns=4)" in text
    assert "current = clerk" in text
    assert answer(wired, "a") == SIMULATED


def test_a_run_of_pydantic_ai_gives_its_output_and_a_swallowed_error_fails(tmp_path: Path) -> None:
    code = (
        "from dataclasses import dataclass\nfrom pydantic_ai import Agent\n"
        "from pydantic_ai.models.test import TestModel\n"
        "@dataclass\nclass Deps:\n    floor: int\n"
        f"clerk = Agent(TestModel(), system_prompt='{LONG}', deps_type=Deps)\n"
        "async def ask(question: str):\n"
        "    try:\n"
        "        if not question:\n            raise ValueError\n"
        "        answer = await clerk.run(question, deps=Deps(floor=1))\n"
        "        return answer\n"
        "    except Exception:\n        return None\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    assert answer(wired, "a") == "success (no tool calls)"
    with pytest.raises(RuntimeError, match="ask gave no result"):
        answer(wired, "")


def test_a_loop_of_pydantic_ai_builds_its_dependencies_as_the_program_does(tmp_path: Path) -> None:
    code = (
        "import asyncio\nfrom dataclasses import dataclass\nfrom pydantic_ai import Agent\n"
        "from pydantic_ai.models.test import TestModel\n"
        "@dataclass\nclass Deps:\n    floor: int\n"
        f"clerk = Agent(TestModel(), system_prompt='{LONG}', deps_type=Deps)\n"
        "async def main():\n    deps = Deps(floor=2)\n    while True:\n"
        "        question = input('> ')\n        result = await clerk.run(question, deps=deps)\n"
        "        print(result.output)\n"
        "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )
    wired = wire(tmp_path, {"main.py": code}, "main")
    assert "deps = Deps(floor=2)" in wired.text("ratchet_agent.py")
    assert answer(wired, "a") == "success (no tool calls)"


def test_a_crew_takes_the_inputs_that_main_hard_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FakeCrew:
        def kickoff(self, inputs: dict[str, Any]) -> Any:
            return SimpleNamespace(raw=json.dumps(inputs))

    _fake(monkeypatch, "crewai", Crew=lambda **given: FakeCrew(), Agent=object, Task=object)
    files = {
        "src/team/crew.py": (
            "from crewai import Agent, Crew, Task\n"
            "class Team:\n    def crew(self):\n        return Crew(agents=[], tasks=[])\n"
        ),
        "src/team/main.py": (
            "#!/usr/bin/env python\nfrom datetime import date\n\nfrom team.crew import Team\n\n"
            "def run():\n    '''Runs.'''\n"
            "    inputs = {'book': 'Emma', 'copies': 3, 'day': str(date(2026, 1, 2))}\n"
            "    Team().crew().kickoff(inputs=inputs)\n"
        ),
        "pyproject.toml": '[project]\nname = "team"\n[project.scripts]\nteam = "team.main:run"\n',
    }
    wired = wire(tmp_path, files, "run")
    assert wired.config["path"] == [".", "src"]
    assert "(book: str, copies: int) -> str:" in wired.text("ratchet_agent.py")
    given = json.loads(answer(wired, {"book": "Persuasion", "copies": 1}))
    assert given == {"book": "Persuasion", "copies": 1, "day": "2026-01-02"}
    assert "    '''Runs.'''\n    ratchet.init()\n" in wired.text("src/team/main.py")


class FakeGraph:
    """Stands for LangGraph's builder and compiled graph: runs its nodes in the order added."""

    def __init__(self, *schema: Any, **more: Any) -> None:
        self.nodes: dict[str, Any] = {}

    def add_node(self, name: str, node: Any) -> None:
        self.nodes[name] = node

    def compile(self) -> FakeGraph:
        return self

    def invoke(
        self, state: dict[str, Any], config: Any = None, interrupt_before: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        for name, node in self.nodes.items():
            if name in interrupt_before:
                break
            state = {**state, **node(state)}
        return {**state, "config": config}


GRAPH = (
    "from typing import TypedDict\nfrom langgraph.graph import StateGraph\nfrom openai import OpenAI\n"
    "import smtplib\n"
    "class State(TypedDict):\n    question: str\n    floor: int\n    answer: str\n"
    "def think(state):\n"
    "    client = OpenAI()\n"
    "    done = client.chat.completions.create(model='m', messages=[\n"
    f"        {{'role': 'system', 'content': '{LONG}'}},\n"
    "        {'role': 'user', 'content': state['question']}])\n"
    "    return {'answer': done.choices[0].message.content}\n"
    "def notify(state):\n    smtplib.SMTP('h').sendmail('a', 'b', state['answer'])\n    return {}\n"
    "class Flow:\n    def __init__(self):\n        builder = StateGraph(State)\n"
    "        builder.add_node('think', think)\n        builder.add_node('mail', notify)\n"
    "        self.app = builder.compile()\n"
)


def test_a_graph_takes_the_keys_that_its_program_gives_and_stops_before_it_acts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake(monkeypatch, "langgraph.graph", StateGraph=FakeGraph)
    main = (
        "import sys\nfrom flow import Flow\nconfig = {'recursion_limit': 9}\napp = Flow().app\n"
        "for step in app.stream({'question': sys.argv[1], 'floor': 2}, config):\n    print(step)\n"
    )
    wired = wire(tmp_path, {"flow.py": GRAPH, "main.py": main}, "Flow")
    said = answer(wired, "Where?")
    assert said["answer"] == SIMULATED
    assert (said["floor"], said["config"]) == (2, {"recursion_limit": 9})
    text = wired.text("ratchet_agent.py")
    assert 'interrupt_before=["mail"]' in text
    assert "It stops before `mail`, since that acts." in text
    assert wired.text("main.py").index("ratchet.init()") < wired.text("main.py").index("app = Flow")
    assert "@ratchet.tool(side_effects=True)\ndef notify" in wired.text("flow.py")


def test_what_a_test_gives_a_graph_is_an_example_and_the_same_for_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake(monkeypatch, "langgraph.graph", StateGraph=FakeGraph)
    test = (
        "from flow import Flow\ndef test_flow():\n    floors = read()\n"
        "    assert Flow().app.invoke({'question': 'Who?', 'floor': floors})\n"
    )
    wired = wire(tmp_path, {"flow.py": GRAPH, "tests/test_flow.py": test}, "Flow")
    said = "def desk(question: str, floor: int)"
    assert said in wired.text("ratchet_agent.py")


def test_a_conversation_graph_takes_a_message_and_gives_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Said(FakeGraph):
        def invoke(self, state: dict[str, Any], *given: Any, **more: Any) -> dict[str, Any]:
            [(role, text)] = state["messages"]
            return {"messages": [SimpleNamespace(content=f"{role}: {text} {more}")]}

    _fake(monkeypatch, "langgraph.graph", StateGraph=Said, MessagesState=dict)
    code = GRAPH.replace("import StateGraph", "import MessagesState, StateGraph").replace(
        "class State(TypedDict):\n    question: str\n", "class State(MessagesState):\n"
    )
    code = code.replace("        builder.add_node('mail', notify)\n", "")
    main = (
        "from flow import Flow\n"
        "print(Flow().app.invoke({'messages': [('user', 'Who reads?')]}, {'tags': ['a']}))\n"
    )
    wired = wire(tmp_path / "plain", {"flow.py": code, "main.py": main}, "Flow")
    assert answer(wired, "Where?") == "user: Where? {}"
    # Nodes see None for a context that no run is given; one that can be made of nothing is.
    code = code.replace("StateGraph(State)", "StateGraph(State, context_schema=Context)")
    for number, (schema, made) in enumerate(
        (
            ("@dataclass\nclass Context:\n    model: str = 'm'\n", True),
            ("class Context(TypedDict):\n    model: str\n", True),
            ("@dataclass\nclass Context:\n    model: str\n", False),
            ("class Context(BaseModel):\n    model: str = Field(..., description='m')\n", False),
        )
    ):
        text = code.replace("class State", f"{schema}class State")
        wired = wire(tmp_path / str(number), {"flow.py": text}, "Flow")
        assert ("context={}" in wired.text("ratchet_agent.py")) is made


def test_a_graph_with_an_async_node_is_awaited(tmp_path: Path) -> None:
    code = GRAPH.replace("def think", "async def think").replace("self.app", "self.graph")
    wired = wire(tmp_path / "node", {"flow.py": code}, "Flow")
    text = wired.text("ratchet_agent.py")
    assert "async def desk(" in text
    assert "await Flow().graph.ainvoke(" in text
    made = GRAPH.replace("def __init__", "async def create").replace("self.app =", "return")
    wired = wire(tmp_path / "made", {"flow.py": made}, "Flow.create")
    text = wired.text("ratchet_agent.py")
    assert "async def desk(" in text
    assert "(await Flow().create()).ainvoke(" in text


def test_what_acts_in_the_rest_of_a_service_is_marked_too(tmp_path: Path) -> None:
    files = {
        "route.py": (
            "from fastapi import APIRouter\nfrom openai import OpenAI\nrouter = APIRouter()\n"
            "@router.post('/ask')\ndef ask(question: str):\n"
            "    return OpenAI().chat.completions.create(model='m', messages=[\n"
            f"        {{'role': 'system', 'content': '{LONG}'}},\n"
            "        {'role': 'user', 'content': question}]).choices[0].message.content\n"
        ),
        "mail.py": "import smtplib\ndef tell(text):\n    smtplib.SMTP('h').sendmail('a', 'b', text)\n",
        "main.py": (
            "from fastapi import FastAPI\nimport mail\nfrom route import router\n"
            "app = FastAPI()\napp.include_router(router)\n"
        ),
    }
    wired = wire(tmp_path, files, "POST /ask", run="service")
    assert "@ratchet.tool(side_effects=True)\ndef tell(" in wired.text("mail.py")


def test_a_workflow_runs_once_and_declines_what_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Event(SimpleNamespace):
        pass

    class Handler:
        def __init__(self, given: dict[str, Any]) -> None:
            self.given, self.sent = given, list[Any]()
            self.ctx = SimpleNamespace(send_event=self.sent.append)

        async def stream_events(self) -> Any:
            yield sys.modules["flow"].Asked(tool_id="7")

        def __await__(self) -> Any:
            yield from ()
            [said] = self.sent
            return {"response": [self.given["user_msg"], self.given["rules"], said.__dict__]}

    class Workflow:
        def __init__(self, timeout: Any = None) -> None:
            pass

        def run(self, **given: Any) -> Handler:
            return Handler(given)

    kinds = {one: type(one, (Event,), {}) for one in ("InputRequiredEvent", "HumanResponseEvent")}
    core = "llama_index.core"
    _fake(monkeypatch, f"{core}.workflow", Workflow=Workflow, step=lambda one: one, **kinds)
    _fake(monkeypatch, "llama_index.llms.openai", OpenAI=lambda **given: None)
    files = {
        "flow.py": (
            "from llama_index.core.workflow import (\n"
            "    HumanResponseEvent, InputRequiredEvent, Workflow, step)\n"
            "from llama_index.llms.openai import OpenAI\n"
            "class Asked(InputRequiredEvent):\n    tool_id: str\n"
            "class Approved(HumanResponseEvent):\n    tool_id: str\n    approved: bool\n"
            "    response: str | None = None\n"
            "class Desk(Workflow):\n    @step\n    async def ask(self, ev):\n"
            f"        return await OpenAI(model='m').achat([('system', '{LONG}')])\n"
        ),
        "main.py": (
            "import asyncio\nfrom flow import Approved, Asked, Desk\n"
            f"def rules():\n    return '{LONG}'\n"
            "async def main():\n    told = rules()\n    desk = Desk(timeout=None)\n"
            "    handler = desk.run(user_msg='Hello!', rules=told)\n    while True:\n"
            "        async for event in handler.stream_events():\n"
            "            if isinstance(event, Asked):\n                input('ok? ')\n"
            "        result = await handler\n        print(result['response'])\n"
            "        handler = desk.run(user_msg=input('> '), rules=told)\n"
            "if __name__ == '__main__':\n    asyncio.run(main())\n"
        ),
    }
    wired = wire(tmp_path, files, "Desk.ask")
    assert answer(wired, "Where?") == ["Where?", LONG, {"tool_id": "7", "approved": False}]


def test_a_dspy_program_is_called_and_configured_as_in_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured: list[Any] = []

    class Module:
        def __call__(self, **given: Any) -> Any:
            return self.forward(**given)  # type: ignore[attr-defined]

    _fake(
        monkeypatch,
        "dspy",
        Module=Module,
        Signature=object,
        InputField=lambda **given: None,
        OutputField=lambda **given: None,
        LM=lambda model: model,
        configure=lambda lm: configured.append(lm),
        ChainOfThought=lambda signature: lambda **given: SimpleNamespace(answer=str(given)),
        Prediction=lambda **given: SimpleNamespace(**given),
    )
    files = {
        "program.py": (
            'import dspy\nclass Shelve(dspy.Signature):\n    """Name the shelf."""\n'
            "    book = dspy.InputField()\n    answer = dspy.OutputField()\n"
            "class Desk(dspy.Module):\n    def __init__(self, most=3):\n"
            "        self.shelve = dspy.ChainOfThought(Shelve)\n"
            "    def forward(self, book: str):\n        return self.shelve(book=book)\n"
        ),
        "main.py": (
            "import dspy\nfrom program import Desk\n"
            "def main():\n    lm = dspy.LM('openai/gpt-4o-mini')\n    dspy.configure(lm=lm)\n"
            "    print(Desk()(book='Emma').answer)\n"
            "if __name__ == '__main__':\n    main()\n"
        ),
    }
    wired = wire(tmp_path, files, "Desk")
    assert answer(wired, "Emma") == "{'book': 'Emma'}"
    assert configured == ["openai/gpt-4o-mini"]


def test_nobody_answers_for_the_person_in_a_chat_of_autogen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Proxy:
        def __init__(self, **given: Any) -> None:
            self.messages: list[dict[str, Any]] = []

        def last_message(self) -> dict[str, Any]:
            return self.messages[-1]

        async def a_initiate_chat(self, other: Any, message: str) -> None:
            for said in ({"content": None, "function_call": {}}, {"content": f"re: {message}"}):
                self.messages.append(said)
                said["reply"] = await self.a_get_human_input("Feedback?")  # type: ignore[attr-defined]

    _fake(monkeypatch, "autogen", AssistantAgent=lambda **given: None, UserProxyAgent=Proxy)
    code = (
        "import asyncio\nimport autogen\n"
        "class Chat:\n    def __init__(self, socket=None):\n"
        "        self.queue = asyncio.Queue()\n"
        f"        self.clerk = autogen.AssistantAgent(name='clerk', system_message='{LONG}')\n"
        "        self.user = autogen.UserProxyAgent(name='user', human_input_mode='ALWAYS')\n"
        "    async def start(self, message):\n"
        "        await self.user.a_initiate_chat(self.clerk, message=message)\n"
    )
    wired = wire(tmp_path, {"chat.py": code}, "Chat.start")
    assert answer(wired, "Where?") == "re: Where?"


def test_a_route_takes_the_fields_of_its_body(tmp_path: Path) -> None:
    pytest.importorskip("pydantic")
    files = {
        "desk.py": (
            "from pydantic import BaseModel, Field\n"
            + CLIENT
            + "class Asked(BaseModel):\n    question: str\n"
            + "    floor: int = Field(default=2, ge=0)\n    seen: list = Field(default_factory=list)\n"
            + "def respond(asked: Asked):\n    question = asked.question\n"
            + SAID
            + "    return {'said': done.choices[0].message.content, 'floor': asked.floor}\n"
        ),
    }
    wired = wire(tmp_path, files, "respond")
    assert answer(wired, {"question": "a"}) == {"said": SIMULATED, "floor": 2}
    assert answer(wired, {"question": "a", "floor": 4})["floor"] == 4
    assert "(question: str, floor: int = 2)" in wired.text("ratchet_agent.py")


def test_what_is_streamed_is_joined(tmp_path: Path) -> None:
    code = ASK.replace(
        "    return done.choices",
        "    for word in 'a b'.split():\n        yield word\n    yield done.choices",
    )
    wired = wire(tmp_path, {"desk.py": code.replace(" -> str", "")}, "ask")
    assert answer(wired, "x") == f"ab{SIMULATED}"


def test_a_script_that_runs_when_imported_becomes_a_command(tmp_path: Path) -> None:
    code = (
        f"RULES = '{LONG}'\ndef ask(question):\n    from openai import OpenAI\n"
        "    return OpenAI().chat.completions.create(model='m', messages=[\n"
        "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--floor', type=int)\nparser.add_argument('--question', '-q')\n"
        "parser.add_argument('--loud', action='store_true')\ngiven = parser.parse_args()\n"
        "def main():\n    print(ask('') if given.floor > 3 else given.question, given.floor)\nmain()\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "desk.py")
    assert wired.config["command"] == "python ratchet_command.py"
    assert "importing desk.py runs it" in wired.left
    done = subprocess.run(
        [sys.executable, "ratchet_command.py"],
        cwd=wired.root,
        input=json.dumps({"input": {"question": "Where?", "floor": 3}}),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "Where? 3\n", done.stderr


def test_the_command_of_a_typer_program_gets_the_task_as_its_options(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    code = (
        f"RULES = '{LONG}'\nimport sys\nimport typer\nfrom openai import OpenAI\n"
        "app = typer.Typer()\n@app.command(help='Asks.')\n"
        "def main(place: str = typer.Argument('Rome'), "
        "question: str = typer.Option(None, '-q', '--ask'), days: int = typer.Option(3), "
        "loud: bool = typer.Option(False, '--loud/--quiet')):\n"
        "    print(place, question, days, loud)\n    texts = {'question': question}\n"
        "    if days > 30:\n        tell(texts)\n"
        "def tell(texts):\n"
        "    print(OpenAI().chat.completions.create(model='m', messages=[\n"
        "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': str(texts)}]))\n"
    )
    files = {
        "pyproject.toml": '[project]\nname = "desk"\n[project.scripts]\ndesk = "desk.main:app"\n',
        "src/desk/__init__.py": "",
        "src/desk/main.py": code,
    }
    wired = wire(tmp_path, files, "main", run="command")
    assert wired.config["command"] == "python ratchet_command.py"

    def printed(given: object) -> str:
        done = subprocess.run(
            [sys.executable, "ratchet_command.py"],
            cwd=wired.root,
            input=json.dumps({"input": given}),
            capture_output=True,
            text=True,
        )
        return done.stdout or done.stderr

    assert printed("Where?") == "Rome Where? 3 False\n"
    all_of_them = {"place": "Oslo", "question": "When?", "days": 2}
    assert printed(all_of_them) == "Oslo When? 2 False\n"


def test_a_command_names_the_variables_of_its_clients(tmp_path: Path) -> None:
    code = (
        "import os\nfrom openai import OpenAI\n"
        "client = OpenAI(base_url=os.environ['OPENAI_ENDPOINT'], api_key=os.getenv('GROQ_API_KEY'))\n"
        f"RULES = '{LONG}'\nWEB_URL = os.environ['SHOP_URL']\n"
        "question = input('> ')\n"
        "print(client.chat.completions.create(model='m', messages=[\n"
        "    {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}]))\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "desk.py", run="command")
    assert wired.config["model_base_url"] == ["OPENAI_ENDPOINT"]
    assert wired.config["model_key"] == ["GROQ_API_KEY"]


def test_a_service_is_sent_its_tasks_at_the_routes_address(tmp_path: Path) -> None:
    files = {
        "main.py": (
            "import uvicorn\nfrom fastapi import FastAPI\nfrom routes import router\n"
            "app = FastAPI()\napp.include_router(router, prefix='/v1')\n"
            "if __name__ == '__main__':\n    uvicorn.run(app, port=8123)\n"
        ),
        "routes.py": "from fastapi import APIRouter\nrouter = APIRouter(prefix='/desk')\n"
        + CLIENT
        + "@router.post('/ask')\ndef ask(question: str):\n"
        + SAID
        + "    return done\n",
    }
    wired = wire(tmp_path, files, "POST /ask", run="service")
    assert wired.config == {"url": "http://127.0.0.1:8123/v1/desk/ask", "name": "desk"}


def test_environment_files_are_read_where_only_the_program_reads_them(tmp_path: Path) -> None:
    main = (
        "from dotenv import load_dotenv\nload_dotenv()\nfrom desk import ask\n"
        "if __name__ == '__main__':\n    print(ask('a'))\n"
    )
    wired = wire(tmp_path, {"desk.py": ASK, "main.py": main}, "ask")
    text = wired.text("ratchet_agent.py")
    assert text.index("load_dotenv()\n") < text.index("from desk import ask")


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    own = "VALUE = 1\n"
    wired = wire(tmp_path, {"desk.py": ASK, "ratchet_agent.py": own}, "ask")
    assert wired.text("ratchet_agent.py") == own
    assert wired.config["entry"].startswith("ratchet_entry:")
    assert answer(wired, "a") == SIMULATED


def test_a_second_time_changes_nothing_and_keeps_an_edited_adapter(tmp_path: Path) -> None:
    main = "from desk import ask\nif __name__ == '__main__':\n    print(ask('a'))\n"
    tool = "import shutil\nfrom agents import function_tool\n@function_tool\ndef wipe(path: str):\n    shutil.rmtree(path)\n"
    wired = wire(tmp_path, {"desk.py": tool + ASK, "main.py": main}, "ask")
    adapter = wired.root / "ratchet_agent.py"
    adapter.write_text(adapter.read_text() + "# mine\n")
    step = wired.again()
    assert step.changes.files == ()
    assert step.config == wired.step.config


def test_what_a_task_gives_is_known_beforehand_or_why_no_function_can_be_written(
    tmp_path: Path,
) -> None:
    code = ASK.replace("question: str", "client, question: str") + ASK.replace(
        "def ask", "def tell"
    )
    root = write(tmp_path, {"desk.py": code})
    found = look(root)
    entries = {one.name: Choices(".", "desk", one, "python", ()) for one in found.entries}
    modules = Modules(root, ".")
    assert task_inputs(found, entries["tell"], modules) == ("question: str",)
    with pytest.raises(CannotCall, match="`client`"):
        task_inputs(found, entries["ask"], modules)


def test_an_object_that_a_task_can_make_takes_its_fields(tmp_path: Path) -> None:
    code = (
        CLIENT
        + "class Trip:\n    def __init__(self, place, days: int):\n"
        + "        self.place, self.days = place, days\n"
        + "    def run(self):\n        question = f'{self.days} days in {self.place}'\n"
        + SAID.replace("\n    ", "\n        ").replace("    client", "        client", 1)
        + "        return question\n"
        + "if __name__ == '__main__':\n"
        + "    trip = Trip(input('Where? '), int(input('How long? ')))\n    print(trip.run())\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "Trip.run")
    assert answer(wired, {"place": "Rome", "days": 3}) == "3 days in Rome"


def test_what_makes_the_object_and_what_its_method_takes_are_given_together(
    tmp_path: Path,
) -> None:
    code = (
        CLIENT
        + "class Page:\n    def __init__(self, idea, style='plain', *, size):\n"
        + "        self.idea, self.size = idea, size\n"
        + "    def draw(self, idea):\n        question = idea\n"
        + SAID.replace("\n    ", "\n        ").replace("    client", "        client", 1)
        + "        return [self.idea, idea, self.size]\n"
        + "def start(idea, size):\n    Page(idea, size=size).draw(idea)\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "Page.draw")
    assert answer(wired, {"idea": "a", "size": 2}) == ["a", "a", 2]


def test_an_entry_whose_file_does_not_parse_any_more_is_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    root = write(tmp_path, {"desk.py": ASK})
    found = look(root)
    (root / "desk.py").write_text("((")
    step = wire_entry(root, found, Choices(".", "desk", found.entries[0], "python", ()))
    assert step.config == {}
    assert "not Python that can be read" in step.changes.left_alone[0].why


def test_input_errors_are_the_only_errors_of_broken_repositories(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "desk.py": ASK,
            "loop_a.py": "from loop_b import X\n",
            "loop_b.py": "from loop_a import X\n",
        },
    )
    (root / "link.py").symlink_to(root / "absent.py")
    found = look(root)
    try:
        wire_entry(root, found, Choices(".", "desk", found.entries[0], "python", ()))
    except InputError:
        pytest.fail("a repository with oddities is wired nonetheless")


def test_a_function_that_only_returns_the_graph_is_not_imported_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake(monkeypatch, "langgraph.graph", StateGraph=FakeGraph)
    serve = (
        "from fastapi import FastAPI\nfrom flow import Flow\napp = FastAPI()\n"
        "def get_graph():\n    return Flow().app\ngraph = get_graph()\n"
    )
    wired = wire(tmp_path, {"flow.py": GRAPH, "serve.py": serve}, "get_graph")
    text = wired.text("ratchet_agent.py")
    assert "from flow import Flow" in text
    assert "serve" not in text.replace("serve.py", "")


def test_a_module_that_imports_the_framework_it_is_named_like_keeps_its_package(
    tmp_path: Path,
) -> None:
    files = {
        "back/__init__.py": "",
        "back/agents.py": (
            "from agents import Agent\n"
            f"clerk = Agent(name='Clerk', instructions='{LONG}', model='gpt-4o-mini')\n"
        ),
        "back/serve.py": (
            "from agents import Runner\nfrom back.agents import clerk\n"
            "async def ask(question: str):\n    return await Runner.run(clerk, question)\n"
        ),
    }
    wired = wire(tmp_path, files, "ask")
    assert "path" not in wired.config
    assert answer(wired, "a") == SIMULATED
