"""A look finds what reaches a model, and nothing of a repository is run, imported or changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.types import InputError
from ratchet.wire import look
from tests.wire.repositories import LONG, LOOK_ALIKES, LookAlike
from tests.wire.score import Tally

CALL = (
    "from openai import OpenAI\n"
    "PROMPT = '{text}'\n"
    "def ask(question):\n"
    "    messages = [{{'role': 'system', 'content': PROMPT}}]\n"
    "    return OpenAI().chat.completions.create(model='m', messages=messages)\n"
)


def _write(folder: Path, **files: str) -> Path:
    return LookAlike("made", files, "", "", ()).write(folder)


def _agent(text: str = LONG) -> str:
    return CALL.format(text=text)


@pytest.mark.parametrize("case", LOOK_ALIKES, ids=lambda case: case.name)
def test_a_look_alike_is_seen_as_it_is(case: LookAlike, tmp_path: Path) -> None:
    tally = Tally()
    tally.add(look(case.write(tmp_path)), case)
    assert set(tally.result().values()) == {1}


def test_the_bytes_of_a_part_are_its_literal(tmp_path: Path) -> None:
    text = "# é 🚚\r\n" + _agent().replace("\n", "\r\n")
    root = _write(tmp_path, **{"a🚚.py": text})
    [prompt] = look(root).prompts
    [part] = prompt.parts
    assert text.encode()[part.start : part.end].decode() == f"'{LONG}'"
    assert str(prompt.place) == "a🚚.py:3"


def test_of_an_agent_that_a_file_describes_only_the_prompts_are_parts(tmp_path: Path) -> None:
    case = next(one for one in LOOK_ALIKES if one.name == "agent-that-a-file-describes")
    [described] = [one for one in look(case.write(tmp_path)).prompts if one.kind == "yaml"]
    fields = [part.field for part in described.parts]
    assert fields == ["system_prompt", "instructions.0", "instructions.1"]


def test_the_last_of_many_pieces_is_part_of_a_message_that_is_spliced_in(tmp_path: Path) -> None:
    name = "message-of-many-pieces-that-is-spliced-into-a-history"
    case = next(one for one in LOOK_ALIKES if one.name == name)
    texts = [part.text for one in look(case.write(tmp_path)).prompts for part in one.parts]
    assert any(text.startswith("This reader is known already.") for text in texts)


def test_env_files_are_named_and_never_opened(tmp_path: Path) -> None:
    names = (".env", ".env.prod", ".env.example", "deploy/.env.local", "deploy/.env_copy")
    root = _write(tmp_path, **{"agent.py": _agent(), **dict.fromkeys(names, "KEY=v\n")})
    (root / ".env").chmod(0)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from ratchet.wire import look\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append((event, str(given)))"
        " if event in ('open', 'subprocess.Popen') else None)\n"
        "found = look(Path(sys.argv[1]))\n"
        "assert not [one for one in opened if '.env' in one[1] or one[0] != 'open'], opened\n"
        "print(*(one.name for one in found.secrets), len(found.prompts))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*sorted(names), "1"]


def test_nothing_is_imported_or_written(tmp_path: Path) -> None:
    root = _write(tmp_path, **{"agent.py": "open('ran', 'w')\n" + _agent()})
    before = sorted(root.rglob("*"))
    assert look(root).prompts
    assert sorted(root.rglob("*")) == before


def test_a_file_of_python_2_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    old = "from openai import OpenAI\nprint 'x'\n"
    root = _write(tmp_path, **{"agent.py": _agent(), "two.py": old, "bad.py": "import openai\n(("})
    found = look(root)
    assert len(found.prompts) == 1
    assert {one.path: one.reason.split(" (")[0] for one in found.unreadable} == {
        "two.py": "is Python 2",
        "bad.py": "does not parse as Python",
    }


def test_links_out_of_the_repository_are_not_followed(tmp_path: Path) -> None:
    outside = _write(tmp_path / "outside", **{"other.py": _agent()})
    root = _write(tmp_path, **{"agent.py": _agent()})
    (root / "linked.py").symlink_to(outside / "other.py")
    (root / "folder").symlink_to(outside)
    found = look(root)
    assert [one.place.path for one in found.prompts] == ["agent.py"]
    assert {one.path for one in found.left_out} == {"linked.py", "folder/"}


def test_a_local_module_named_like_a_framework_is_none(tmp_path: Path) -> None:
    local = "class OpenAI:\n    chat = None\n"
    root = _write(tmp_path, **{"openai.py": local, "agent.py": _agent()})
    assert look(root).frameworks == ()


def test_vendored_copies_are_left_out(tmp_path: Path) -> None:
    root = _write(tmp_path, **{"agent.py": _agent(), "vendor/copy.py": _agent()})
    found = look(root)
    assert [one.place.path for one in found.prompts] == ["agent.py"]
    assert [(one.path, one.reason) for one in found.left_out] == [("vendor/", "vendored copy")]


def test_without_an_agent_the_look_says_what_it_looked_for(tmp_path: Path) -> None:
    found = look(_write(tmp_path, **{"main.go": "package main", "a.py": "import json\n"}))
    assert found.entries == found.prompts == ()
    assert "langgraph" in found.looked_for
    assert {one.name for one in found.languages} == {"Go", "Python"}


def test_ten_agents_are_ten_members(tmp_path: Path) -> None:
    files = {}
    for number in range(10):
        files[f"p{number}/agent.py"] = _agent()
        files[f"p{number}/requirements.txt"] = "openai>=1\n"
    found = look(_write(tmp_path, **files))
    assert found.monorepo
    assert [one.path for one in found.members] == [f"p{number}" for number in range(10)]


def test_a_module_that_is_named_setup_begins_no_project(tmp_path: Path) -> None:
    setup = "from setuptools import setup\nsetup(name='desk')\n"
    root = _write(
        tmp_path,
        **{
            "requirements.txt": "openai\n",
            "desk/graph/setup.py": "def make_graph():\n    return None\n",
            "desk/graph/ask.py": _agent(),
            "films/setup.py": setup,
            "films/ask.py": _agent(),
        },
    )
    found = look(root)
    assert [one.path for one in found.members] == [".", "films"]
    assert [one.path for one in found.manifests] == ["requirements.txt", "films/setup.py"]


def test_a_short_message_is_data_and_no_prompt(tmp_path: Path) -> None:
    code = (
        "from openai import OpenAI\n"
        "OpenAI().chat.completions.create(messages=[{'role': 'user', 'content': 'Hello there!'}])\n"
    )
    found = look(_write(tmp_path, **{"agent.py": code}))
    assert found.prompts == ()
    assert len(found.model_calls) == 1


def test_only_files_around_a_framework_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratchet.wire.looking import program

    read: list[str] = []
    real = program.read_python
    monkeypatch.setattr(
        program,
        "read_python",
        lambda path, text, **given: read.append(path) or real(path, text, **given),
    )
    files = {f"lib/part{number}.py": "import json\n" for number in range(200)}
    assert look(_write(tmp_path, **files, **{"agent.py": _agent()})).prompts
    assert read == ["agent.py"]


def test_names_of_files_are_followed_once_per_expression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratchet.wire.looking.file_paths import FilePaths

    asked: list[int] = []
    real = FilePaths._texts
    monkeypatch.setattr(
        FilePaths, "_texts", lambda self, *given: asked.append(1) or real(self, *given)
    )
    steps = "".join(
        f"def step{n}(path):\n" + f"    step{n + 1}(os.path.join(path, 'a', path))\n" * 12
        for n in range(5)
    )
    code = (
        f"import os\nfrom openai import OpenAI\n{steps}"
        "def step5(path):\n    with open(path) as file:\n        text = file.read()\n"
        "    messages = [{'role': 'system', 'content': text}]\n"
        "    OpenAI().chat.completions.create(model='m', messages=messages)\n"
        "step0('rules.md')\n"
    )
    look(_write(tmp_path, **{"agent.py": code, "rules.md": LONG}))
    assert len(asked) < 1000


def test_a_notebook_alone_is_an_agent(tmp_path: Path) -> None:
    import json

    cells = [{"cell_type": "code", "source": "!pip install openai\n" + _agent()}]
    root = _write(tmp_path, **{"agent.ipynb": json.dumps({"cells": cells, "metadata": {}})})
    found = look(root)
    assert [one.place.path for one in found.prompts] == ["agent.ipynb"]


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        look(tmp_path / "absent")


def test_secrets_are_named_by_settings_and_by_variables(tmp_path: Path) -> None:
    settings = (
        "from pydantic import Field\n"
        "from pydantic_settings import BaseSettings, SettingsConfigDict\n"
        "class Common(BaseSettings):\n"
        "    model_config = SettingsConfigDict(env_prefix='DESK_')\n"
        "    mail_password: str\n"
        "    pages: int = 4\n"
        "class Settings(Common):\n"
        "    store: str = Field(validation_alias='STORE_TOKEN')\n"
        "class Plain:\n"
        "    other_password: str\n"
    )
    code = "import settings\nfrom os import environ\nK = environ.get('MODEL_KEY')\n" + _agent()
    found = look(_write(tmp_path, **{"agent.py": code, "settings.py": settings}))
    assert [(one.name, str(one.place)) for one in found.secrets] == [
        ("DESK_MAIL_PASSWORD", "settings.py:5"),
        ("MODEL_KEY", "agent.py:3"),
        ("STORE_TOKEN", "settings.py:8"),
    ]


def test_each_field_of_a_crews_file_has_its_bytes(tmp_path: Path) -> None:
    agents = (
        "# 🚚 fields\r\nclerk:\r\n  role: >\r\n    clerk of {town}\r\n\r\n"
        "  goal: 'shelve é'\r\n  verbose: true\r\n  llm: some/model\r\n"
    )
    [case] = [one for one in LOOK_ALIKES if one.name == "crew-of-files"]
    files = {**case.files, "src/config/agents.yaml": agents}
    found = look(LookAlike("made", files, "", "", ()).write(tmp_path))
    prompt = next(one for one in found.prompts if one.place.path == "src/config/agents.yaml")
    assert prompt.place.line == 0
    data = agents.encode()
    assert [
        (p.field, p.place.line, p.text, data[p.start : p.end].decode()) for p in prompt.parts
    ] == [
        ("clerk.role", 3, "clerk of {town}\n", ">\r\n    clerk of {town}"),
        ("clerk.goal", 6, "shelve é", "'shelve é'"),
    ]


def test_each_field_of_a_table_has_its_bytes_and_its_text(tmp_path: Path) -> None:
    table = (
        f'# é\r\nfirst.system_prompt = "{LONG}"\r\n["second part"]\r\n'
        f'turns = {{ User = """\\\r\n  {LONG}""", title = "{LONG}" }}\r\n'
    )
    code = (
        "import tomllib\nTEXTS = tomllib.load(open('a.toml', 'rb'))\n"
        "def texts():\n"
        "    return TEXTS['first']['system_prompt'], TEXTS['second part']['turns']['user']\n"
    )
    root = _write(tmp_path, **{"a.toml": table, "ask.py": code + _agent()})
    [prompt] = [one for one in look(root).prompts if one.kind == "toml"]
    data = (root / "a.toml").read_bytes()
    found = [(p.field, p.place.line, data[p.start : p.end].decode(), p.text) for p in prompt.parts]
    assert found == [
        ("first.system_prompt", 2, f'"{LONG}"', LONG),
        ("second part.turns.User", 4, f'"""\\\r\n  {LONG}"""', LONG),
    ]


def test_a_prompt_of_the_framework_is_listed_apart(tmp_path: Path) -> None:
    code = (
        "from agents import Agent, Runner\n"
        "from agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX\n"
        f"desk = Agent(name='Desk', instructions=f'{{RECOMMENDED_PROMPT_PREFIX}} {LONG}')\n"
        "async def ask(text):\n    return await Runner.run(desk, text)\n"
    )
    found = look(_write(tmp_path, **{"agent.py": code}))
    assert [str(one.place) for one in found.prompts] == ["agent.py:3"]
    [default] = found.framework_prompts
    assert default.binding == "gateway"
    assert default.name == "agents.extensions.handoff_prompt.RECOMMENDED_PROMPT_PREFIX"
    assert [str(one) for one in default.reaches] == ["agent.py:3"]


def test_files_that_are_not_what_their_names_say_are_passed_over(tmp_path: Path) -> None:
    [crew] = [one for one in LOOK_ALIKES if one.name == "crew-of-files"]
    aliases = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    odd = {
        "package.json": '{"scripts": "jest", "dependencies": []}',
        "a.test.js": "test('a', () => {});\n",
        "pyproject.toml": 'project = "desk"\n',
        "data/list.json": "[1, 2, 3]",
        "data/deep.json": "[" * 100_000,
        "data/nul.csv": "question,answer\n\0,\0\n" * 3,
        "data/short.csv": "question,answer\na\nb,c,d\n",
        "data/empty.jsonl": "",
        "Procfile": "web: " + "a/" * 50_000 + "\n",
        "compose.yaml": "services: [\n",
        "src/config/tasks.yaml": "a0: &a0 [one]\n" + aliases + "shelve:\n  description: shelve\n",
    }
    found = look(_write(tmp_path, **{**crew.files, **odd}))
    assert [one.command for one in found.tests] == ["node --test"]
    tasks = next(one for one in found.prompts if one.place.path == "src/config/tasks.yaml")
    assert [part.field for part in tasks.parts] == ["shelve.description"]
