"""`ratchet.init()` comes to where a program starts, once, and nowhere else."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire.entries import LONG, Wired, wire

ASK = (
    f"from openai import OpenAI\nRULES = '{LONG}'\n"
    "def ask(question: str) -> str:\n"
    "    return OpenAI().chat.completions.create(model='m', messages=[\n"
    "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
)


def _wire(folder: Path, **files: str) -> Wired:
    named = {path.replace("__", "/"): text for path, text in files.items()}
    return wire(folder, {"desk.py": ASK, **named}, "ask")


PROGRAMS = {
    "main block": (
        "from desk import ask\n\nif __name__ == '__main__':\n    # say\n    print(ask('a'))\n",
        "if __name__ == '__main__':\n    ratchet.init()\n    # say\n    print(ask('a'))\n",
    ),
    "app": (
        "from fastapi import FastAPI\nfrom desk import ask\n\n# The app.\napp = FastAPI()\n",
        "\nratchet.init()\n# The app.\napp = FastAPI()\n",
    ),
    "lifespan": (
        "from fastapi import FastAPI\nfrom desk import ask\n"
        "async def lifespan(app):\n    '''Opens.'''\n    yield\n\napp = FastAPI(lifespan=lifespan)\n",
        "    '''Opens.'''\n    ratchet.init()\n    yield\n",
    ),
    "app of a reloading server": (
        "import uvicorn\nfrom fastapi import FastAPI\nfrom desk import ask\napp = FastAPI()\n"
        "if __name__ == '__main__':\n    uvicorn.run('main:app', reload=True)\n",
        "ratchet.init()\napp = FastAPI()\n",
    ),
    "script without a main block": (
        "from dotenv import load_dotenv\nfrom desk import ask\nload_dotenv()\nN = 3\n"
        "for number in range(N):\n    print(ask(input('> ')))\n",
        "N = 3\nratchet.init()\nfor number in range(N):\n",
    ),
    "existing tracing": (
        "from instrument import instrument\nfrom desk import ask\n"
        "if __name__ == '__main__':\n    instrument()\n    ask('a')\n",
        "'__main__':\n    ratchet.init()\n    instrument()\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), PROGRAMS.values(), ids=PROGRAMS)
def test_tracing_starts_where_the_program_starts(tmp_path: Path, before: str, after: str) -> None:
    wired = _wire(tmp_path, **{"main.py": before, "instrument.py": "def instrument(): ...\n"})
    text = wired.text("main.py")
    assert after in text
    assert text.count("ratchet.init()") == 1
    assert "ratchet" not in wired.text("desk.py")


def test_a_console_script_starts_tracing_in_its_function(tmp_path: Path) -> None:
    manifest = '[project]\nname = "d"\n[project.scripts]\nd = "main:run"\n'
    main = "from desk import ask\ndef run():\n    '''Runs.'''\n    print(ask('a'))\n"
    wired = _wire(tmp_path, **{"main.py": main, "pyproject.toml": manifest})
    assert "    '''Runs.'''\n    ratchet.init()\n    print" in wired.text("main.py")


def test_a_program_that_starts_it_already_stays_as_it_is(tmp_path: Path) -> None:
    main = "import ratchet\nfrom desk import ask\nratchet.init('d')\nprint(ask(input()))\n"
    assert _wire(tmp_path, **{"main.py": main}).text("main.py") == main


def test_tests_and_scripts_that_do_not_reach_the_agent_are_not_touched(tmp_path: Path) -> None:
    block = "if __name__ == '__main__':\n    print('a')\n"
    files = {
        "main.py": "from desk import ask\nif __name__ == '__main__':\n    ask('a')\n",
        "tests__test_desk.py": "from desk import ask\n" + block,
        "clean.py": block,
    }
    wired = _wire(tmp_path, **files)
    assert wired.text("tests/test_desk.py") == files["tests__test_desk.py"]
    assert wired.text("clean.py") == block


def test_without_a_program_it_is_said(tmp_path: Path) -> None:
    assert "No program that starts the agent was found" in _wire(tmp_path).left


def test_an_import_follows_the_docstring_and_the_imports_of_the_future(tmp_path: Path) -> None:
    main = (
        "#!/usr/bin/env python\n'''Docs.'''\nfrom __future__ import annotations\n"
        "if __name__ == '__main__':\n    from desk import ask\n    ask('a')\n"
    )
    text = _wire(tmp_path, **{"main.py": main}).text("main.py")
    assert text.index("annotations\n") < text.index("import ratchet\n") < text.index("if __name__")


def test_a_file_that_ends_without_a_line_end_is_not_joined(tmp_path: Path) -> None:
    main = "if __name__ == '__main__':\n    import desk"
    text = _wire(tmp_path, **{"main.py": main}).text("main.py")
    assert text == "import ratchet\nif __name__ == '__main__':\n    ratchet.init()\n    import desk"
