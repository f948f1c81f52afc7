"""What is recommended for a repository, and the starter tasks that it shows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ratchet.types import InputError
from ratchet.wire import look
from ratchet.wire.former import dry_run, make_plan
from ratchet.wire.recommending import Recommendation, recommend
from ratchet.wire.starters import StarterTasks, find_tasks
from tests.wire.repositories import LOOK_ALIKES

AGENT = """
from pathlib import Path
import smtplib
from openai import OpenAI

PROMPT = "You answer questions about loans of books, in short and plain sentences."


def tell(who):
    smtplib.SMTP("mail").sendmail("desk", who, "ready")


def note(text):
    Path("notes.txt").write_text(text)


def answer(question: str) -> str:
    note(question)
    tell("reader")
    done = OpenAI().chat.completions.create(
        model="m",
        messages=[{"role": "system", "content": PROMPT}, {"role": "user", "content": question}],
    )
    return done.choices[0].message.content
"""


def _written(root: Path, **files: str) -> Path:
    for name, text in {"desk.py": AGENT, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _page(advice: Recommendation, title: str) -> str:
    return " ".join(
        line for section in advice.sections if section.title == title for line in section.lines
    )


def _tasks(root: Path) -> StarterTasks:
    found = look(root)
    choices = recommend(found).choices
    assert choices is not None
    return find_tasks(root, found, choices)


def test_the_page_does_not_promise_that_what_is_not_marked_is_stopped(tmp_path: Path) -> None:
    found = look(_written(tmp_path))
    advice = recommend(found)
    risks = _page(advice, "What is risky")
    assert "What can be marked is, and does not act in rollouts." in risks
    assert "Not stopped in rollouts: file write (desk.py:14)" in risks
    tools = next(one for one in advice.questions if one.key == "tools")
    assert [one.value for one in tools.options] == ["tell"]
    assert tools.default == ""
    assert advice.choices is not None
    plan = make_plan(tmp_path, found, advice.choices)
    assert "desk.py:14" in [str(left.place) for left in plan.left_alone]
    assert dry_run(tmp_path, plan).splitlines().count("+@ratchet.tool(side_effects=True)") == 1


def test_of_entries_that_are_about_as_likely_one_that_a_task_can_run_is_taken(
    tmp_path: Path,
) -> None:
    hidden = AGENT.replace(
        "def answer(question: str)",
        "class Desk:\n    pass\n\n\ndef answer_query(question: str, desk: Desk)",
    )
    root = _written(tmp_path, **{"desk.py": hidden, "front.py": AGENT.split("def note")[0]})
    (root / "front.py").write_text(
        "from desk import Desk, answer_query\n"
        "def help_reader(request: str) -> str:\n    return answer_query(request, Desk())\n"
    )
    advice = recommend(look(root))
    assert advice.choices is not None
    assert advice.choices.entry.name == "help_reader"
    page = _page(advice, "What this agent is")
    assert "it takes request: str" in page
    assert "answer_query (desk.py:21) looked likelier, and no task can run it: " in page
    assert "To take it all the same: --entry desk.py:answer_query" in page


def test_the_page_names_the_frameworks_of_the_project_that_is_wired(tmp_path: Path) -> None:
    root = _written(tmp_path, **{"books/desk.py": AGENT, "books/requirements.txt": "openai\n"})
    (root / "desk.py").unlink()
    other = AGENT.replace("from openai import OpenAI", "from anthropic import Anthropic")
    other = other.replace("OpenAI().chat.completions.create", "Anthropic().messages.create")
    (root / "films").mkdir()
    (root / "films/desk.py").write_text(other)
    (root / "films/requirements.txt").write_text("anthropic\n")
    found = look(root)
    assert "an agent made with openai." in _page(recommend(found, "books"), "What this agent is")
    assert "made with anthropic." in _page(recommend(found, "films"), "What this agent is")


def test_of_javascript_nothing_is_said_to_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {"openai": "^5"}}')
    (tmp_path / "desk.ts").write_text(
        "import OpenAI from 'openai';\nimport fs from 'node:fs/promises';\n"
        "export async function answer(question: string) {\n"
        "  const done = await new OpenAI().chat.completions.create({ model: 'm', messages: [\n"
        "    { role: 'system', content: 'You answer questions about loans of books, shortly.' },\n"
        "    { role: 'user', content: question }] });\n"
        "  await fs.writeFile('answer.md', 'x');\n"
        "  return done.choices[0].message.content;\n}\n"
    )
    advice = recommend(look(tmp_path))
    risks = _page(advice, "What is risky")
    assert "Not stopped in rollouts: file write" in risks
    assert "does not act" not in risks
    assert "tools" not in [one.key for one in advice.questions]


def test_a_tool_that_is_not_there_cannot_be_allowed(tmp_path: Path) -> None:
    found = look(_written(tmp_path))
    allowed = recommend(found, may_run=("tell",))
    assert "but for tell" in _page(allowed, "What is risky")
    with pytest.raises(InputError, match="No tool with side effects is named 'tel'") as raised:
        recommend(found, may_run=("tel",))
    assert "tell" in str(raised.value.hint)


def test_rows_with_secrets_are_redacted_and_those_with_secret_answers_left_out(
    tmp_path: Path,
) -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    rows = [
        {"question": "How long is a loan?", "answer": "Three weeks."},
        {"question": f"Why is my key {key} refused?", "answer": "It has expired."},
        {"question": "Which key do I use?", "answer": f"Use {key}."},
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    found = _tasks(_written(tmp_path, **{"data/questions.jsonl": text}))
    assert [task["expected"] for task in found.tasks] == ["Three weeks.", "It has expired."]
    assert key not in json.dumps(found.tasks)
    assert "1 of them with secrets or personal data redacted" in found.source


def test_of_a_conversation_in_the_readme_only_what_the_user_says_is_an_input(
    tmp_path: Path,
) -> None:
    readme = (
        "# Desk\n\nWhat would a library be without one?\n\n"
        "![](https://images.example/Z-JFEC7M5Afa0TKCMpUjWG-yFJFLmLYmp2ds?type=png)\n\n"
        '- User: "I want to renew my loan"\n'
        '- Desk Agent: "Could you please give me your number?"\n'
        "<b>USER >> how many books may I keep</b>\n"
        "AGENT >> Is there anything else I can do?\n\n"
        '    python desk.py "Which books are due this week?"\n'
    )
    found = _tasks(_written(tmp_path, **{"README.md": readme}))
    assert [task["input"] for task in found.tasks] == [
        "I want to renew my loan",
        "how many books may I keep",
        "Which books are due this week?",
    ]
    assert all("expected" not in task for task in found.tasks)
    assert found.tasks[0]["metadata"] == {"source": "README.md:7"}
    assert found.source.endswith("check them")


def test_arrows_are_a_conversation_only_in_both_directions(tmp_path: Path) -> None:
    lines = "-> What is my status?\n<- What is your number, please?\n"
    found = _tasks(_written(tmp_path, **{"README.md": lines}))
    assert [task["input"] for task in found.tasks] == ["What is my status?"]
    (tmp_path / "README.md").write_text("-> Click on the next button\n")
    assert _tasks(tmp_path).tasks == ()


def test_rows_up_to_a_broken_one_are_taken(tmp_path: Path) -> None:
    rows = "question,answer\nHow long is a loan?,Three weeks.\nWho may borrow?,Anyone.\n"
    root = _written(tmp_path, **{"data/loans.csv": rows})
    found = look(root)
    choices = recommend(found).choices
    assert choices is not None
    with (root / "data/loans.csv").open("a") as file:
        file.write(f'"{"x" * 200_000}",y\n')
    tasks = find_tasks(root, found, choices).tasks
    assert [task["expected"] for task in tasks] == ["Three weeks.", "Anyone."]


def test_data_of_another_project_is_not_taken(tmp_path: Path) -> None:
    _written(
        tmp_path,
        **{
            "one/desk.py": AGENT,
            "one/requirements.txt": "openai\n",
            "two/desk.py": AGENT,
            "two/requirements.txt": "openai\n",
            "two/data/loans.csv": "question,answer\nHow long is a loan?,Three weeks.\n"
            "Who may borrow?,Anyone.\n",
        },
    )
    (tmp_path / "desk.py").unlink()
    found = look(tmp_path)
    for project, number in (("one", 0), ("two", 2)):
        choices = recommend(found, project).choices
        assert choices is not None
        assert len(find_tasks(tmp_path, found, choices).tasks) == number


def test_the_words_of_a_prompt_in_a_file_are_counted(tmp_path: Path) -> None:
    agent = AGENT.replace(
        'PROMPT = "You answer questions about loans of books, in short and plain sentences."',
        'PROMPT = Path(__file__).with_name("desk.md").read_text()',
    )
    text = "You answer questions about loans of books, in short sentences.\n"
    advice = recommend(look(_written(tmp_path, **{"desk.py": agent, "desk.md": text})))
    assert "desk.md): 10 words" in _page(advice, "What to improve first")


def test_data_that_git_ignores_is_not_copied_into_a_committed_file(tmp_path: Path) -> None:
    case = next(one for one in LOOK_ALIKES if one.name == "data-that-could-be-tasks")
    root = case.write(tmp_path)
    (root / ".gitignore").write_text("data/\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    found = look(root)
    assert found.task_data, "the test would prove nothing"
    choices = recommend(found).choices
    assert choices is not None
    assert "data/" not in find_tasks(root, found, choices).source
