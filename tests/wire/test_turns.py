"""A program that talks with a person becomes a function of what the person says."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.wire.entries import LONG, answer, wire

CHAIN = (
    "from langchain_core.prompts import ChatPromptTemplate\nfrom langchain_openai import ChatOpenAI\n"
    f"RULES = '{LONG} {{text}}'\nchain = ChatPromptTemplate.from_template(RULES) | ChatOpenAI(model='m')\n"
)


@pytest.fixture(autouse=True)
def fake_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes of LangChain's template and model: the chain returns what it was given."""

    class Chain:
        def __or__(self, other: Any) -> Chain:
            return self

        def invoke(self, given: Any) -> Any:
            return SimpleNamespace(content={"given": given})

        async def ainvoke(self, given: Any) -> Any:
            return self.invoke(given)

    prompts, models, core = (ModuleType(name) for name in ("p", "m", "c"))
    prompts.ChatPromptTemplate = SimpleNamespace(from_template=lambda text: Chain())  # type: ignore[attr-defined]
    models.ChatOpenAI = lambda model: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain_core", core)
    monkeypatch.setitem(sys.modules, "langchain_core.prompts", prompts)
    monkeypatch.setitem(sys.modules, "langchain_openai", models)
    typer = ModuleType("typer")
    typer.Option = lambda default, *names: default  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "typer", typer)


def test_a_loop_that_asks_becomes_one_turn(tmp_path: Path) -> None:
    code = CHAIN + (
        "def main():\n    tone = 'dry'\n    while True:\n        text = input('> ').strip()\n"
        "        if text.lower() == 'quit':\n            break\n"
        "        done = chain.invoke({'text': text, 'tone': tone})\n"
        "        print('said', done.content['given'])\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "main")
    assert answer(wired, "Where?") == {"text": "Where?", "tone": "dry"}
    assert "with nothing said before" in wired.text("ratchet_agent.py")


def test_parsed_arguments_become_parameters(tmp_path: Path) -> None:
    code = (
        "import argparse\nimport asyncio\n"
        + CHAIN
        + (
            "async def main():\n    parser = argparse.ArgumentParser()\n"
            "    parser.add_argument('--question')\n    parser.add_argument('--floor', type=int)\n"
            "    args = parser.parse_args()\n"
            "    done = await chain.ainvoke({'text': args.question, 'floor': args.floor})\n"
            "    print(done.content)\n"
            "if __name__ == '__main__':\n    asyncio.run(main())\n"
        )
    )
    wired = wire(tmp_path, {"desk.py": code}, "main")
    given = answer(wired, {"question": "Where?", "floor": 2})["given"]
    assert given == {"text": "Where?", "floor": 2}


def test_an_argument_of_the_command_line_becomes_the_parameter(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        + CHAIN
        + ("if __name__ == '__main__':\n    print(chain.invoke({'text': sys.argv[1]}).content)\n")
    )
    wired = wire(tmp_path, {"desk.py": code}, "desk.py")
    assert answer(wired, "Where?") == {"given": {"text": "Where?"}}


def test_a_function_that_prints_gives_what_it_prints(tmp_path: Path) -> None:
    code = CHAIN + (
        "def show(question: str, floor: int = 1):\n"
        "    done = chain.invoke({'text': question})\n    print(f'{done.content} at {floor}')\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "show")
    assert answer(wired, "Where?") == {"given": {"text": "Where?"}}


def test_what_is_read_from_a_file_is_read_again_in_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import json\n" + CHAIN + "def main():\n"
        "    with open('tones.json', encoding='utf-8') as file:\n        tones = json.load(file)\n"
        "    while True:\n        text = input('> ')\n"
        "        done = chain.invoke({'text': text, 'tone': tones['first']})\n"
        "        print('said', done.content['given'])\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    wired = wire(tmp_path, {"desk.py": code, "tones.json": '{"first": "dry"}'}, "main")
    monkeypatch.chdir(wired.root)
    assert answer(wired, "Where?") == {"text": "Where?", "tone": "dry"}


def test_options_of_a_command_keep_their_defaults(tmp_path: Path) -> None:
    code = (
        "from typer import Option\n" + CHAIN + "def ask(tone: str = Option('dry', '--tone'), "
        "text: str = Option(...), size: int = 3, log=print):\n"
        "    print(chain.invoke({'text': text, 'tone': tone, 'size': size}).content['given'])\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    assert answer(wired, "Where?") == {"text": "Where?", "tone": "dry", "size": 3}
    given = {"text": "Why?", "tone": "kind", "size": 5}
    assert answer(wired, given) == given


def test_what_the_program_alone_has_is_refused(tmp_path: Path) -> None:
    code = CHAIN + (
        "def main(seen):\n    with open('x') as file:\n        text = input('> ')\n"
        "        print(chain.invoke({'text': text, 'file': file}).content)\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "main")
    assert "entry" not in wired.config
    assert "`file` is opened by a `with` of the program" in wired.left
