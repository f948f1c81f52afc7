"""Commands that get a task's input in their words, on standard input, or answer in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.node_packages import node
from tests.run.executing import in_turn

from ratchet.run.command import CommandExecutor
from ratchet.run.handover import Handover
from ratchet.types import Claim, ConfigError, InputError
from ratchet.worker.placeholders import check_placeholders

Claims = Callable[..., list[Claim]]
Make = Callable[..., CommandExecutor]

HOSTILE = (
    "two words",
    'it\'s "quoted" `id` $(id) $HOME \\n',
    "a line\nand another\n",
    "--help",
    "-",
    "",
    "日本語 ümlaut 🦊",
    "; rm -rf / && echo {input} {{x}}",
    "*",
    "a\tb\r",
)

PRINT_WORDS = {
    "python": (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"),
    "node": ("node", "-e", "console.log(JSON.stringify(process.argv.slice(1)))", "--"),
    "sh": (
        "sh",
        "-c",
        f"{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' \"$@\"",
        "sh",
    ),
}


@pytest.fixture
def command(tmp_path: Path) -> Make:
    """An executor for a command in an empty project."""

    def make(*words: str, **settings: Any) -> CommandExecutor:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        options = {"slots": 2, "timeout_s": 30.0, "state": tmp_path / "state", **settings}
        return CommandExecutor(words, folder=folder, **options)

    return make


@pytest.mark.parametrize("language", PRINT_WORDS)
def test_whatever_the_input_is_it_is_one_word(command: Make, claims: Claims, language: str) -> None:
    if language == "node":
        node()
    executor = command(*PRINT_WORDS[language], "{input}", "--q={input}", "{{input}}", "end")
    outcomes = in_turn(executor, claims(*HOSTILE))
    assert [outcome.output for outcome in outcomes] == [
        [text, f"--q={text}", "{input}", "end"] for text in HOSTILE
    ]


def test_fields_of_the_input_stand_where_they_are_named_and_data_is_json(
    command: Make, claims: Claims
) -> None:
    words = ("{input.who}", "{input.orders.1.id}", "{input.n}", "{input.none}", "{input}")
    given = {"who": "Ann Lee", "orders": [{"id": 1}, {"id": "x 2"}], "n": 4.5, "none": None}
    (outcome,) = in_turn(command(*PRINT_WORDS["python"], *words), claims(given))
    *fields, whole = outcome.output
    assert fields == ["Ann Lee", "x 2", "4.5", "null"]
    assert json.loads(whole) == given


def test_standard_input_is_what_the_template_says_and_empty_beside_a_placeholder(
    command: Make, claims: Claims
) -> None:
    source = "import json, sys; print(json.dumps(sys.stdin.read()))"
    (chat,) = in_turn(
        command(sys.executable, "-c", source, stdin="{input}\nexit\n"), claims("a\nb")
    )
    assert chat.output == "a\nb\nexit\n"
    (empty,) = in_turn(command(sys.executable, "-c", source, "{input}"), claims("a"))
    assert empty.output == ""


def test_a_nul_or_an_input_longer_than_an_argument_is_a_sentence(
    command: Make, claims: Claims
) -> None:
    nul, long = in_turn(command("true", "{input}"), claims("a\0b", "x" * 3_000_000))
    assert (nul.status, long.status) == ("failed", "failed")
    assert "NUL character, which no argument can contain" in nul.error
    assert 'longer than an argument may be. Pass it on standard input: stdin = "{input}"' in (
        long.error
    )


def test_what_is_missing_is_named_with_its_setting_and_what_there_is() -> None:
    handover = Handover(words=("ask", "{input.question}"), stdin="{input.a.0}")
    with pytest.raises(InputError) as failed:
        handover.check({"query": 1, "a": [1]})
    assert failed.value.message == (
        "[agent] command names {input.question}, but the task's input has no field 'question'; it"
        " has 'query', 'a'."
    )
    with pytest.raises(InputError, match=r"no field 'question'; it is a text") as failed:
        handover.check("Where is it?")
    assert failed.value.hint == 'Give an object as the input: {"question": "…", "a": "…"}'
    with pytest.raises(InputError, match=r"the task's input.a has no item '0'; it is a list of 0"):
        handover.check({"question": 1, "a": []})


@pytest.mark.parametrize(
    ("body", "task_input", "sent"),
    [
        ({"m": "{input}", "n": 1}, "Where?", {"m": "Where?", "n": 1}),
        ({"m": "{input}", "n": 1}, {"m": "Where? {input}"}, {"m": "Where? {input}", "n": 1}),
        ({"m": "Q: {input}", "n": 1}, {"m": "Q: Where?", "n": 2}, {"m": "Q: Where?", "n": 2}),
        ({"a": {"m": ["{input}"]}}, {"a": {"m": ["Where?"]}}, {"a": {"m": ["Where?"]}}),
        ({"m": "{input}", "n": 1}, {"x": "Where?"}, {"m": {"x": "Where?"}, "n": 1}),
        ({"m": "{input}", "n": 1}, {"n": 2}, {"m": {"n": 2}, "n": 1}),
        ({"m": "{input}"}, {"m": {"text": "Where?"}}, {"m": {"m": {"text": "Where?"}}}),
        ({"m": "{input.m}!", "n": 1}, {"m": "Where?"}, {"m": "Where?!", "n": 1}),
    ],
)  # fmt: skip
def test_an_input_with_the_fields_of_the_body_is_the_body(
    body: object, task_input: object, sent: object
) -> None:
    handover = Handover(body=body)
    handover.check(task_input)
    assert json.loads(handover.request(task_input) or b"") == sent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{question}", "has {question}, which is not a placeholder"),
        ("x {input} {question}", "has {question}, which is not a placeholder"),
        ("{input.}", "has {input.}, which is not a placeholder"),
        ("{input} {", "has a single brace"),
        ('{"a": "{input}"}', "has a single brace"),
        ("--port={port} {input}", "has {port}, which is not a placeholder"),
    ],
)
def test_a_wrong_placeholder_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as failed:
        check_placeholders(["program", text], "[agent] command")
    assert said in failed.value.message


WRITES = """
import os, pathlib, sys
given = sys.argv[1]
pathlib.Path("out").mkdir(exist_ok=True)
report = pathlib.Path("out/report.md")
if given == "nothing":
    sys.exit()
report.unlink(missing_ok=True)
if given == "fifo":
    os.mkfifo(report)
elif given == "link":
    pathlib.Path("elsewhere").write_text("not the answer")
    report.symlink_to("../elsewhere")
else:
    report.write_text(given)
print("written")
"""


def test_an_answer_in_a_file_is_that_of_this_attempt(command: Make, claims: Claims) -> None:
    executor = command(sys.executable, "-c", WRITES, "{input}", output="file:out/report.md")
    assert executor.slots == 1
    *written, nothing, link, fifo = in_turn(
        executor, claims("one", "one", '{"a": 1}', "nothing", "link", "fifo")
    )
    assert [outcome.output for outcome in written] == ["one", "one", {"a": 1}]
    assert nothing.status == "failed"
    assert nothing.error.startswith(
        "The command did not write out/report.md, the file that should hold its answer."
    )
    assert (link.status, fifo.status) == ("failed", "failed")
    assert "report.md cannot be read" in link.error
    assert "report.md is not a regular file" in fifo.error
