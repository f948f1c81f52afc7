"""What a recording says about the input, the answer's place and the model's address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.types import InputError
from ratchet.wire.deriving.derive import derive, model_hosts
from ratchet.wire.deriving.owner_input import owner_values, reached
from ratchet.wire.deriving.program import answer_in, answer_in_events, program_template
from ratchet.wire.recording.recording import (
    Argument,
    CommandRun,
    FileWrite,
    Frame,
    ModelText,
    Recording,
)
from ratchet.worker.placeholders import value_at
from tests.wire.test_declarations import recording


def recorded(root: Path, *words: str, **call: Any) -> Recording:
    """A run of `python agent.py WORDS` with one model call that has these fields."""
    made = recording(root)
    return msgspec.structs.replace(
        made,
        run=CommandRun(argv=("python", "agent.py", *words)),
        calls=(msgspec.structs.replace(made.calls[0], **call),),
    )


def test_a_sentence_that_reached_a_system_prompt_is_input_and_a_word_there_is_not(
    tmp_path: Path,
) -> None:
    texts = (ModelText(role="system", text="You answer in Dutch. Question: where is it from?"),)
    run = recorded(tmp_path, "Dutch", "where is it from?", texts=texts)
    given = reached(run, owner_values(run.run))
    assert [value.value for value in given] == ["where is it from?"]


def test_a_number_that_is_an_argument_is_input_where_a_text_has_it_too(tmp_path: Path) -> None:
    turns = Argument(name="turns", value=3, whole=True, type="int")
    frame = Frame(
        file="agent.py",
        module="agent",
        line=1,
        function="talk",
        kind="function",
        activation=1,
        arguments=(turns,),
    )
    for text, values in (("Where is order 3?", ["3"]), ("Hello", []), ("Order 30?", [])):
        texts = (ModelText(role="user", text=text),)
        run = recorded(tmp_path, "3", texts=texts, stack=(frame,))
        assert [value.value for value in reached(run, owner_values(run.run))] == values


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        (["Hi", "Looked up.", "It is late."], "messages.-1"),
        (["It is late."], "messages.0"),
        (["It is late.", "Bye"], "messages.0"),
    ],
)
def test_an_answer_in_the_last_of_several_items_is_taken_from_the_last(
    tmp_path: Path, messages: list[str], place: str
) -> None:
    run = recorded(tmp_path, response="It is late.")
    answer = {"messages": messages}
    assert answer_in(answer, run) == (place, "It is late.")
    assert value_at(answer, place.split("."), "the answer") == "It is late."


@pytest.mark.parametrize(
    "response",
    [
        'data: {"type": "start"}\n\ndata: {"type": "text", "delta": "It is"}\n\n'
        'data: {"type": "text", "delta": " late."}\n\ndata: [DONE]\n\n',
        '{"type": "start"}\n{"delta": "It is"}\n{"delta": " late."}\n{"content": "Late: it is."}\n',
    ],
)
def test_an_answer_in_pieces_of_a_stream_is_found_where_its_events_hold_it(
    tmp_path: Path, response: str
) -> None:
    run = recorded(tmp_path, response="It is late.")
    assert answer_in_events(response, run) == ("delta", "It is late.")
    other = answer_in_events(response, recorded(tmp_path, response="Bye."))
    assert other is not None
    assert other[0] == ""
    assert other[1][0]["type"] == "start"


def test_an_answer_in_the_last_of_several_whole_steps_of_a_stream_is_found(tmp_path: Path) -> None:
    response = (
        'data: {"step": 0, "text": "I look it up.", "tools": ["It is late, says the desk."]}\n\n'
        'data: {"step": 1, "text": "<p>It is late.</p>", "tools": []}\n\n'
    )
    run = recorded(tmp_path, response="It is late.")
    expected = ("text", "I look it up.<p>It is late.</p>")
    assert answer_in_events(response, run) == expected
    assert answer_in_events("It is late.", run) is None


def test_an_empty_list_has_no_last_item() -> None:
    with pytest.raises(InputError, match="messages"):
        value_at({"messages": []}, ["messages", "-1"], "the answer")


def test_a_host_is_led_by_itself_unless_the_libraries_variables_alone_stand_for_it(
    tmp_path: Path,
) -> None:
    of = {"host": "127.0.0.1:9000", "by_hook": True}
    alone = recorded(tmp_path, variables=("OPENAI_BASE_URL",), **of)
    both = recorded(tmp_path, variables=("OPENAI_BASE_URL", "BASE_URL"), **of)
    none = recorded(tmp_path, variables=(), **of)
    assert [model_hosts(run) for run in (alone, both, none)] == [
        [],
        ["127.0.0.1:9000"],
        ["127.0.0.1:9000"],
    ]


def test_a_file_whose_content_reached_the_model_is_input(tmp_path: Path) -> None:
    (tmp_path / "ticket.md").write_text("My pan\nis broken. What now?\n")
    (tmp_path / "notes.md").write_text("Nobody asks for these notes.\n")
    texts = (ModelText(role="user", text="Answer this:\n\nMy pan\nis broken. What now?\n"),)
    run = recorded(tmp_path, "ticket.md", "notes.md", texts=texts)
    assert [value.value for value in reached(run, owner_values(run.run))] == ["ticket.md"]


def test_a_file_whose_lines_were_sent_one_by_one_is_input(tmp_path: Path) -> None:
    lines = ["When does it open?", "Who may come?", "Is it warm?"]
    (tmp_path / "asked.txt").write_text("\n".join(lines))
    run = recorded(tmp_path, "asked.txt")
    calls = [
        msgspec.structs.replace(
            run.calls[0], number=number, texts=(ModelText(role="user", text=f"Answer: {line}"),)
        )
        for number, line in enumerate(lines)
    ]
    for sent, values in ((calls, ["asked.txt"]), (calls[:2], [])):
        run = msgspec.structs.replace(run, calls=tuple(sent))
        assert [value.value for value in reached(run, owner_values(run.run))] == values


def test_of_words_beside_a_file_whose_content_was_sent_the_file_alone_is_input(
    tmp_path: Path,
) -> None:
    (tmp_path / "note.txt").write_text("This document says when the pool is open.")
    provider = Argument(name="provider", value="local", whole=True, type="str")
    frame = Frame(
        file="agent.py",
        module="agent",
        line=1,
        function="ask",
        kind="function",
        activation=1,
        arguments=(provider,),
    )
    texts = (ModelText(role="user", text="This document says when the pool is open."),)
    words = ("document", "note.txt", "--provider", "local")
    run = recorded(tmp_path, *words, texts=texts, stack=(frame,))
    assert [value.value for value in reached(run, owner_values(run.run))] == ["note.txt"]
    (tmp_path / "agent.py").write_text('print("a stand-in")\n')
    derived = derive(run, tmp_path, ["agent.py", "note.txt"])
    assert derived.prompts == ()


def test_a_question_in_a_file_is_input_and_a_word_inside_of_another_one_is_none(
    tmp_path: Path,
) -> None:
    question = "Who sells most in summer?"
    (tmp_path / "question.json").write_text(json.dumps({"key": "q8", "question": question}))
    texts = (ModelText(role="user", text=f"Code is evaluated, then shown.\n{question}"),)
    run = recorded(tmp_path, "eval", "question.json", texts=texts)
    assert [value.value for value in reached(run, owner_values(run.run))] == ["question.json"]


def test_lines_of_standard_input_that_reached_the_model_together_are_one_input(
    tmp_path: Path,
) -> None:
    diff = "diff --git a/x b/x\n-old line\n+new line\n"
    texts = (ModelText(role="user", text=f"Write a message for:\n{diff}"),)
    run = msgspec.structs.replace(
        recorded(tmp_path, texts=texts), run=CommandRun(argv=("node", "gcm.js"), stdin=diff)
    )
    inputs = reached(run, owner_values(run.run))
    assert [value.value for value in inputs] == [diff.strip()]
    assert program_template(run, inputs).settings["stdin"] == "{input}\n"

    chat = msgspec.structs.replace(
        recorded(tmp_path, texts=(ModelText(role="user", text="Where is it, please?"),)),
        run=CommandRun(argv=("node", "chat.js"), stdin="Where is it, please?\nquit\n"),
    )
    inputs = reached(chat, owner_values(chat.run))
    assert program_template(chat, inputs).settings["stdin"] == "{input}\nquit\n"


def test_the_one_file_that_a_silent_command_wrote_is_its_answer(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("It is late.\n")
    silent = msgspec.structs.replace(
        recorded(tmp_path, "now?"),
        stdout="\n",
        writes=(FileWrite(path="report.md", place="project", how="created"),),
    )
    template = program_template(silent, ())
    assert (template.settings["output"], template.output) == ("file:report.md", "It is late.")
    spoken = msgspec.structs.replace(silent, stdout="Late.")
    assert "output" not in program_template(spoken, ()).settings


def test_a_file_that_the_run_read_and_did_not_send_as_it_is_may_be_the_input(
    tmp_path: Path,
) -> None:
    (tmp_path / "bookmarks.html").write_text("<a href=x>Tea</a>")
    run = recorded(tmp_path, "bookmarks.html", "--fast")
    assert derive(run, tmp_path, []).read_word == ""
    read = msgspec.structs.replace(run, data_files_read=("bookmarks.html",))
    assert derive(read, tmp_path, []).read_word == "bookmarks.html"


def test_a_database_that_a_contained_run_changed_is_not_its_answer(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\x00\xff\xfe")
    (tmp_path / "report.md").write_text("It was late.")
    for path, output in (("store.db", None), ("report.md", "file:report.md")):
        write = FileWrite(path=path, place="project", how="changed")
        run = recorded(tmp_path, "Where?", response="It is late.")
        run = msgspec.structs.replace(run, simulated=True, writes=(write,), stdout="Done.")
        template = program_template(run, ())
        assert template.settings.get("output") == output


def test_a_word_that_a_function_got_beside_a_sentence_is_input_of_a_command_too(
    tmp_path: Path,
) -> None:
    got = tuple(
        Argument(name=name, value=value, whole=True, type="str")
        for name, value in (("company", "Acme Corp"), ("period", "quarterly"))
    )
    frame = Frame(
        file="agent.py",
        module="agent",
        line=1,
        function="report",
        kind="function",
        activation=1,
        arguments=got,
    )
    apart = [msgspec.structs.replace(frame, arguments=(argument,)) for argument in got]
    for stack, command in (
        ((frame,), "{input.word_1} {input.word_2}"),
        (tuple(apart), "{input} quarterly"),
    ):
        run = recorded(tmp_path, "Acme Corp", "quarterly", stack=stack)
        wiring = derive(run, tmp_path, []).wirings[-1]
        assert str(wiring.agent["command"]).endswith(command)
