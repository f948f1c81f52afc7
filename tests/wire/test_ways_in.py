"""Which way into an agent a look puts first, and what it takes for none."""

from __future__ import annotations

from pathlib import Path

from ratchet.wire import RepositoryLook, look
from tests.wire.look_alike import LONG, LookAlike
from tests.wire.unseen_flows import FLOWS

ASK = (
    "from openai import OpenAI\n"
    f"def ask(text):\n    given = [{{'role': 'system', 'content': '{LONG}'}}]\n"
    "    return OpenAI().chat.completions.create(model='m', messages=[*given, text])\n"
)
GRAPH = {
    "requirements.txt": "langgraph\nlangchain-openai\n",
    "desk/__init__.py": "",
    "desk/model.py": (
        "from langchain_openai import ChatOpenAI\n"
        "class TidyChatOpenAI(ChatOpenAI):\n"
        "    def invoke(self, given, config=None):\n"
        "        return tidied(super().invoke(given, config))\n"
        "def tidied(answer):\n    return answer\n"
    ),
    "desk/nodes.py": (
        "def create_adviser(llm):\n"
        f"    def adviser(state):\n        return {{'said': llm.invoke('{LONG}')}}\n"
        "    return adviser\n"
    ),
    "desk/setup.py": (
        "from langgraph.graph import StateGraph\nfrom .nodes import create_adviser\n"
        "class Setup:\n"
        "    def __init__(self, llm):\n        self.llm = llm\n"
        "    def build(self, rooms=('all',)):\n"
        "        workflow = StateGraph(dict)\n"
        "        workflow.add_node('adviser', create_adviser(self.llm))\n"
        "        return workflow\n"
    ),
    "desk/graph.py": (
        "from .model import TidyChatOpenAI\nfrom .setup import Setup\n"
        "class Desk:\n"
        "    def __init__(self):\n"
        "        self.setup = Setup(TidyChatOpenAI())\n"
        "        self.workflow = self.setup.build()\n"
        "        self.graph = self.workflow.compile()\n"
        "    def advise(self, reader, day):\n"
        "        return self._run(reader, day)\n"
        "    def _run(self, reader, day):\n"
        "        return self.graph.invoke({'reader': reader, 'day': day})\n"
    ),
    "shell.py": (
        "from desk.graph import Desk\n"
        "def talk(loud: bool | None = None):\n"
        "    return Desk().graph.invoke({'reader': input('Reader? ')})\n"
    ),
    "start.py": "from desk.graph import Desk\nprint(Desk().advise('Ada', 'Monday'))\n",
}


def _seen(folder: Path, files: dict[str, str]) -> RepositoryLook:
    return look(LookAlike("made", files, "", "", ()).write(folder))


def _names(found: RepositoryLook) -> list[str]:
    return [one.name for one in found.entries]


def test_what_runs_a_graph_that_another_class_builds_is_the_way_in(tmp_path: Path) -> None:
    names = _names(_seen(tmp_path, GRAPH))
    assert set(names[:2]) == {"Desk.advise", "start.py"}
    assert names.index("Desk.advise") < names.index("create_adviser")
    assert names.index("Desk.advise") < names.index("talk")  # a switch takes no task


def test_a_class_of_a_model_and_a_middleware_are_no_ways_in(tmp_path: Path) -> None:
    watching = (
        "from langchain.agents.middleware import AgentMiddleware\n"
        "from langchain_openai import ChatOpenAI\n"
        "class Watch(AgentMiddleware):\n"
        "    def before_agent(self, state, runtime):\n"
        f"        return ChatOpenAI().invoke('{LONG}')\n"
    )
    names = _names(_seen(tmp_path, {**GRAPH, "watch.py": watching}))
    assert names
    assert not [one for one in names if one.startswith(("TidyChatOpenAI", "Watch"))]


def test_a_method_that_nothing_calls_is_neither_a_way_in_nor_a_prompt(tmp_path: Path) -> None:
    [case] = [one for one in FLOWS if one.name == "prompts-from-methods"]
    found = look(case.write(tmp_path))
    assert _names(found)[:2] == ["run.py", "main"]
    assert {(one.place.path, one.reason) for one in found.prompts_left_out} == {
        ("staff.py", "unused: no code calls Staff.boast")
    }


def test_a_method_that_is_named_in_a_text_may_be_called(tmp_path: Path) -> None:
    [case] = [one for one in FLOWS if one.name == "prompts-from-methods"]
    named = {**case.files, "run.py": case.files["run.py"] + "DOES = {'boast': 1}\n"}
    assert not _seen(tmp_path, named).prompts_left_out


def test_methods_of_a_class_that_nothing_makes_are_all_ways_in(tmp_path: Path) -> None:
    desk = ASK + "class Desk:\n    def answer(self, text):\n        return ask(text)\n"
    found = _seen(tmp_path, {"desk.py": desk + "    def boast(self, text):\n        ask(text)\n"})
    assert {"Desk.answer", "Desk.boast"} <= set(_names(found))
    assert {one.confidence for one in found.entries if one.name.startswith("Desk")} == {0.8}


def test_the_graph_that_leads_to_the_most_calls_comes_first(tmp_path: Path) -> None:
    [case] = [one for one in FLOWS if one.name == "functions-in-wrappers"]
    assert _names(look(case.write(tmp_path)))[:2] == ["newsGraph", "archiveGraph"]


def test_the_outermost_of_scripts_and_functions_comes_first(tmp_path: Path) -> None:
    files = {
        "a.py": ASK,
        "b.py": "from a import ask\ndef two(text):\n    return ask(text)\n",
        "z.py": "from b import two\nprint(two('How many books?'))\n",
    }
    assert _names(_seen(tmp_path, files))[0] == "z.py"


def test_a_chain_that_is_made_by_its_type_is_one_of_langchain(tmp_path: Path) -> None:
    script = (
        "import pickle\n"
        "from langchain.chains import RetrievalQAWithSourcesChain\n"
        "from langchain.chat_models import ChatOpenAI\n"
        "store = pickle.load(open('store.pkl', 'rb'))\n"
        "chain = RetrievalQAWithSourcesChain.from_chain_type(\n"
        "    llm=ChatOpenAI(), retriever=store.as_retriever()\n"
        ")\n"
        "print(chain({'question': input('Question? ')})['answer'])\n"
    )
    found = _seen(tmp_path, {"ask.py": script, "requirements.txt": "langchain\n"})
    assert [one.name for one in found.frameworks] == ["langchain"]
    assert _names(found) == ["ask.py"]


def test_an_agent_that_a_service_runs_is_a_way_in(tmp_path: Path) -> None:
    made = (
        "from managed_deepagents import define_deep_agent\n"
        f"agent = define_deep_agent(name='desk', model='m', system_prompt='{LONG}')\n"
    )
    found = _seen(tmp_path, {"agent.py": made})
    assert _names(found) == ["agent"]
    assert [str(one.place) for one in found.prompts] == ["agent.py:2"]
