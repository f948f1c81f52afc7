"""A look is an inventory: it names what is there with its places, and decides nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ratchet.types import InputError
from ratchet.wire.looking import Inventory, look
from tests import interpreters
from tests.repositories import committed

AGENT = """
import os
from agents import Agent, Runner

SYSTEM_PROMPT = "You are a librarian. Answer in one sentence."


def answer(question: str) -> str:
    return Runner.run_sync(Agent(name="l", instructions=SYSTEM_PROMPT), question).final_output


if __name__ == "__main__":
    print(answer(input("What is your question? ")))
"""


def _look(root: Path, files: Mapping[str, str]) -> Inventory:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return look(root)


def _commands(inventory: Inventory) -> set[tuple[str, str]]:
    return {(command.folder, command.command) for command in inventory.commands}


def _prompts(inventory: Inventory) -> list[str]:
    return [str(prompt.place) for prompt in inventory.prompts]


def test_nothing_is_run_and_no_secret_is_opened(tmp_path: Path) -> None:
    marked = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    root = tmp_path / "made"
    inventory = _look(
        root,
        {
            "main.py": marked + AGENT,
            "setup.py": marked,
            "conftest.py": marked,
            ".env": "KEY=sk-live-1\n",
            "prod.env": "KEY=sk-live-2\n",
            ".env.example": "KEY=\n",
            "app/credentials-prod.json": '{"prompt": "You are sk-live-3."}',
            ".streamlit/secrets.toml": "key = 'sk-live-4'\n",
            "certs/server.pem": "sk-live-5",
        },
    )
    assert not (tmp_path / "ran").exists()
    assert set(inventory.secret) == {
        ".env",
        "prod.env",
        "app/credentials-prod.json",
        ".streamlit/secrets.toml",
        "certs/server.pem",
    }
    assert "sk-live" not in repr(inventory)


def test_frameworks_are_told_by_imports_and_manifests_and_not_by_a_folder_of_their_name(
    tmp_path: Path,
) -> None:
    inventory = _look(
        tmp_path,
        {
            "main.py": "from agents.desk import run\nimport langgraph.graph\n",
            "agents/desk.py": "import anthropic\n",
            "requirements.txt": "langgraph==0.2\nopenai>=1  # also\n#crewai\n",
        },
    )
    assert [(used.name, used.imported, str(used.place)) for used in inventory.frameworks] == [
        ("langgraph", 1, "main.py:2"),
        ("anthropic", 1, "agents/desk.py:1"),
        ("openai", 0, "requirements.txt:2"),
    ]


STATED = {
    "README.md": "# Desk\n```bash\npip install -r requirements.txt\ncd backend\n"
    '$ python -m desk.chat \\\n    "Where is it?"  # asks\npytest\n```\n'
    "```python\nprint('python fake.py')\n```\n",
    "backend/desk/__init__.py": "",
    "backend/desk/chat.py": AGENT,
    "backend/desk/cli.py": "def main(): ...\n",
    "backend/pyproject.toml": '[project]\nname = "desk"\n[project.scripts]\n'
    'desk = "desk.cli:main"\ngone = "desk.cli:gone"\n[tool.poe.tasks]\n'
    'chat = "python -m desk.chat"\nlint = "ruff check"\n',
    "backend/uv.lock": "",
    "Procfile": "web: uvicorn server:app --port $PORT\n",
    "server.py": "from fastapi import FastAPI\napp = FastAPI()\n",
    "Makefile": "lint:\n\truff check\nserve:\n\tuvicorn server:app\n.PHONY: serve\n",
    "Dockerfile": 'FROM python\nENTRYPOINT ["python"]\nCMD ["-m", \\\n "desk.chat"]\n',
    "web/package.json": json.dumps(
        {"scripts": {"dev": "next dev", "build": "next build", "start": "node server.js"}}
    ),
    "web/yarn.lock": "",
    "go/go.mod": "module x\n",
    "go/cmd/desk/main.go": "package main\n\nfunc main() {\n}\n",
    "run.sh": "#!/bin/sh\npython ask.py\n",
    "ask.py": "import anthropic\nprint(anthropic.Anthropic())\n",
    "page.py": "import streamlit as st\nst.title('Desk')\n",
    "helper.py": "X = 1\n",
}


def test_candidates_for_the_command_come_from_everything_that_states_one(tmp_path: Path) -> None:
    inventory = _look(tmp_path, STATED)
    assert _commands(inventory) == {
        ("backend", "uv run desk"),
        ("backend", "poe chat"),
        ("backend", 'python -m desk.chat "Where is it?"'),
        ("backend", "python desk/chat.py"),
        (".", "uvicorn server:app --port $PORT"),
        (".", "uvicorn server:app"),
        (".", "make serve"),
        (".", "python -m desk.chat"),
        ("web", "yarn run dev"),
        ("web", "yarn start"),
        ("go", "go run ./cmd/desk"),
        (".", "sh run.sh"),
        (".", "python ask.py"),
        (".", "streamlit run page.py"),
    }
    places = {command.command: str(command.place) for command in inventory.commands}
    assert places["uv run desk"] == "backend/pyproject.toml:4"
    assert places["poe chat"] == "backend/pyproject.toml:7"
    assert places["uvicorn server:app --port $PORT"] == "Procfile:1"
    assert places["make serve"] == "Makefile:3"
    assert places['python -m desk.chat "Where is it?"'] == "README.md:5"
    assert {command.command for command in inventory.commands if command.serves} == {
        "uvicorn server:app --port $PORT",
        "uvicorn server:app",
        "make serve",
        "yarn run dev",
        "yarn start",
        "streamlit run page.py",
    }
    assert [(passed.path, passed.reason) for passed in inventory.passed_over] == [
        ("backend/pyproject.toml, script gone", "desk.cli:gone is not in the repository")
    ]


def test_a_root_graph_in_typescript_is_no_less_a_candidate_than_a_python_subfolder(
    tmp_path: Path,
) -> None:
    inventory = _look(
        tmp_path,
        {
            "langgraph.json": '{"graphs": {"agent": "./src/agent.ts:graph"}}',
            "package.json": '{"scripts": {"start": "tsx src/main.ts"},'
            ' "dependencies": {"@langchain/langgraph": "1"}}',
            "src/agent.ts": "import { StateGraph } from '@langchain/langgraph';\n",
            "python/langgraph.json": '{"graphs": {"agent": "./agent.py:graph"}}',
            "python/agent.py": "import langgraph\n",
            "python/requirements.txt": "langgraph\n",
        },
    )
    assert [(command.folder, command.command) for command in inventory.commands] == [
        (".", "npx @langchain/langgraph-cli dev"),
        (".", "npm start"),
        ("python", "langgraph dev"),
    ]
    assert [(project.folder, project.frameworks) for project in inventory.projects] == [
        (".", ("langgraph",)),
        ("python", ("langgraph",)),
    ]


def test_tests_data_and_projects_are_counted_with_their_places(tmp_path: Path) -> None:
    inventory = _look(
        tmp_path,
        {
            "pyproject.toml": "[project]\nname='a'\n",
            "tests/test_a.py": "def test_a(): ...\ndef test_b(): ...\n",
            "web/package.json": '{"scripts": {"test": "vitest run"}}',
            "web/a.test.ts": "test('a', () => {})\n",
            "data/questions.csv": "question,sql\nHow many?,SELECT 1\n",
            "data/rows.jsonl": '{"input": "a"}\n{"input": "b", "rare": 1}\n{"input": "c"}\n',
            "data/list.json": '{"version": 1, "items": [{"q": "a"}]}',
            "data/settings.json": '{"a": 1}',
            "data/broken.csv": 'a,b\n"1\n',
        },
    )
    assert [(tests.command, tests.folder, tests.cases) for tests in inventory.tests] == [
        ("python -m pytest", ".", 2),
        ("npm test", "web", 1),
    ]
    assert [(data.path, data.columns, data.rows) for data in inventory.data_files] == [
        ("data/list.json", ("q",), 1),
        ("data/questions.csv", ("question", "sql"), 1),
        ("data/rows.jsonl", ("input",), 3),
    ]
    assert [project.folder for project in inventory.projects] == [".", "web"]


# --- prompts

PROMPTS = {
    "names.py": 'REVIEW_PROMPT = """Review this text: {text}"""\n',
    "message.py": 'call([{"role": "system", "content": "Be brief, please."}])\n',
    "pair.py": 'from_messages([("system", "Be brief, please."), ("human", "{question}")])\n',
    "keyword.py": 'agent = Agent(name="x", instructions="Sort the mail by topic.")\n',
    "dedent.py": 'Task(description=dedent(f"""Plan a trip to {city} in {days} days, please."""))\n',
    "returned.py": 'def get_instructions(ctx):\n    return f"Help {ctx.name} with the order."\n',
    "words.py": 'T = "You are a librarian. Always answer the question with one title, no more."\n',
    "signature.py": 'class Answer(dspy.Signature):\n    """Answer with a title."""\n',
    "variable.py": 'RULES = "You answer readers of a library, and say how long books are lent."\n'
    'call([{"role": "system", "content": RULES}])\n',
    "default.py": 'parser.add_argument("--system", default="You are a kind librarian.")\n',
    "agent.ts": "const systemPrompt = `You are ${name}.\\nAnswer briefly.`;\n",
    "call.js": "await generateText({ model, prompt: `Given the text ${t}, list its topics.` });\n",
    "main.go": 'package main\n\nvar systemPrompt = "You sort mail by its topic."\n',
    "run.sh": 'SYSTEM_PROMPT="You are a terse assistant."\n',
    "config/agents.yaml": "desk:\n  role: >\n    Senior mail sorter\n",
    "settings.toml": '[llm]\nsystem_prompt = "You are a librarian."\n',
    "prompts/system.md": "You are a librarian.\n",
}


@pytest.mark.parametrize("path", PROMPTS)
def test_a_prompt_is_told_by_where_it_stands_or_how_it_speaks(path: str, tmp_path: Path) -> None:
    assert [place.partition(":")[0] for place in _prompts(_look(tmp_path, {path: PROMPTS[path]}))]


FOR_PEOPLE = {
    "input": 'prompt = input("Enter the prompt that you want to send to the model: ")\n',
    "variable": 'prompt = "Please describe the system you want in brief"\nx = input(prompt)\n',
    "waits": 'def ask_prompt():\n    return "Give feedback. Press enter to skip, or type exit."\n',
    "interrupt": 'message = "Please review the plan. Does it meet the needs of the user?"\n'
    "system_prompt = ''\nanswer = interrupt(message)\n",
    "console": 'console.print(f"You are using the {model} model. Type your prompt:")\n',
    "print": 'print(dedent("""You must set the API key. Do not share your system prompt."""))\n',
    "help": 'parser.add_argument("--prompt", help="The system prompt that the agent will use.")\n',
    "typer": 'prompt: str = typer.Option("", help="You can give your own system prompt here.")\n',
    "error": 'raise ValueError("You must give a prompt; the system prompt is always required.")\n',
    "log": 'logger.info("Generate the answer with the system prompt of the user in JSON")\n',
    "page": 'st.text_input("Your prompt", placeholder="Write the question you have in mind")\n',
    "docstring": 'def prompt():\n    """Return the prompt. You should always use this."""\n',
    "answer": 'messages = [AIMessage(content="You are welcome. Do not hesitate to ask.")]\n',
    "tool answer": 'def prompt_tool(q):\n    if q:\n        return "You are allowed one bag."\n',
    "schema": '{"instructions": {"description": "The instructions that the user has given."}}\n',
    "steps": 'report = {"instructions": ["Open the page of the run", "Look for an error in it"]}\n',
    "key": 'Task(config=self.tasks_config["write_the_final_report_task"])\n',
    "html": 'PROMPT_PAGE = "<html><body>You are here, do not leave the page</body></html>"\n',
    "sql": 'system_query = "SELECT role FROM users WHERE the_user = you"\n',
}


@pytest.mark.parametrize("case", FOR_PEOPLE)
def test_a_text_that_asks_or_tells_a_person_is_no_prompt(case: str, tmp_path: Path) -> None:
    assert _prompts(_look(tmp_path, {"main.py": FOR_PEOPLE[case]})) == []


ELSEWHERE = {
    "main.go": 'package main\n\nfunc main() {\n\tfmt.Println("%s")\n\tlog.Fatal("%s")\n}\n',
    "ask.sh": 'read -p "%s" prompt\necho "%s"\n',
    "ask.ts": 'rl.question("%s", next);\nthrow new Error("%s");\n',
}


@pytest.mark.parametrize("path", ELSEWHERE)
def test_people_are_told_apart_in_other_languages_too(path: str, tmp_path: Path) -> None:
    said = "You must give the system prompt. Do not leave it empty, the user always needs it."
    assert _prompts(_look(tmp_path, {path: ELSEWHERE[path].replace("%s", said)})) == []


def test_prompts_of_tests_and_generated_files_are_left_out_and_the_whole_is_named_once(
    tmp_path: Path,
) -> None:
    prompt = 'PROMPT = "You are a librarian." + "Answer the question in JSON, and do not guess."\n'
    inventory = _look(
        tmp_path,
        {
            "a.py": prompt,
            "tests/test_a.py": prompt,
            "made.py": "# Code generated by a tool; do not edit.\n" + prompt,
            "node_modules/x/a.py": prompt,
        },
    )
    assert _prompts(inventory) == ["a.py:1"]
    assert inventory.prompts[0].name == "PROMPT"


# --- the page


def test_the_page_says_that_it_is_a_look_and_json_has_the_same(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(AGENT)
    committed(tmp_path)
    page = _run("init", "--look", str(tmp_path))
    assert "Files were read; nothing was run." in page
    for part in ("openai-agents", "python main.py", "main.py:5", "SYSTEM_PROMPT", "No tests."):
        assert part in page
    assert "What is your question" not in page
    inventory = json.loads(_run("init", "--look", "--json", str(tmp_path)))
    assert inventory["commands"][0]["command"] == "python main.py"
    assert inventory["prompts"][0]["place"] == {"path": "main.py", "line": 5}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        look(tmp_path / "a")


def _run(*arguments: str) -> str:
    done = interpreters.run([sys.executable, "-m", "ratchet", *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout
