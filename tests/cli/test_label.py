"""`ratchet label`: keys become labels at once, and files of labels are checked as a whole."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import Feedback, Label, Rollout, RolloutStatus, Score, Span, SpanRecord
from tests import interpreters

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def rollout(id: str, output: str, status: RolloutStatus = "succeeded") -> Rollout:
    return Rollout(
        id=id, queue="q", candidate_id="c", task_id=id, input="Which room?", expected="Elm",
        output=output, status=status,
    )  # fmt: skip


def scores(id: str, **values: float) -> list[tuple[str, Score]]:
    return [
        (id, Score(evaluator=name, version="1", value=value, rationale="Seems so."))
        for name, value in values.items()
    ]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with four answers; `split` is what the evaluators disagree on most."""
    url = f"sqlite:///{tmp_path}/ratchet.db"
    with Store.open(url) as store:
        made = [rollout("sure", "Elm"), rollout("near", "Elm?"), rollout("split", "Oak\x1b[31m")]
        store.rollouts.create([*made, rollout("dead", "", "failed")], 1.0)
        store.scores.add(scores("sure", judge=1.0, exact=1.0), 1.0)
        store.scores.add(scores("near", judge=0.6, exact=0.5), 1.0)
        store.scores.add(scores("split", judge=0.9, exact=0.0), 1.0)
    return url


def label(url: str, *arguments: str, keys: str = "") -> subprocess.CompletedProcess[str]:
    return interpreters.run(
        [sys.executable, "-m", "ratchet", "label", "--store", url, "--by", "ana", *arguments],
        input=keys,
        env={**os.environ, "COLUMNS": "200"},
        timeout=60,
    )


def stored(url: str) -> dict[str, Label]:
    with Store.open(url) as store:
        return {each.rollout_id: each for each in store.labels.list()}


def test_the_cases_that_teach_most_come_first_and_keys_become_labels(url: str) -> None:
    done = label(url, keys="y4n\n")
    assert done.returncode == 0, done.stderr
    found = stored(url)
    assert [*found] == ["split", "near", "sure"]
    assert {id: each.value for id, each in found.items()} == {"split": 1, "near": 0.8, "sure": 0}
    assert {each.drawn for each in found.values()} == {"chosen"}
    assert {each.labeller for each in found.values()} == {"ana"}
    assert "3 labels stored." in done.stdout
    assert "judge 0.90  Seems so." in done.stdout
    assert "\x1b[31m" not in done.stdout
    assert "nothing to label" in label(url).stdout


def test_undo_takes_a_label_back_and_shows_its_case_again(url: str) -> None:
    done = label(url, keys="uyusuq")
    assert "There is nothing to undo." in done.stdout
    assert done.stdout.count("1 of 3") == 4
    assert stored(url) == {}
    label(url, keys="yunsx")
    assert {id: each.value for id, each in stored(url).items()} == {"split": 0}


def test_a_random_sample_is_marked_as_one_and_continues_where_it_stopped(url: str) -> None:
    first = json.loads(label(url, "--random", "--json").stdout)
    assert first["drawn"] == "random"
    order = [case["rollout_id"] for case in first["cases"]]
    assert sorted(order) == ["near", "split", "sure"]
    label(url, "--random", keys="y")
    assert {id: each.drawn for id, each in stored(url).items()} == {order[0]: "random"}
    rest = json.loads(label(url, "--random", "--json").stdout)
    assert [case["rollout_id"] for case in rest["cases"]] == order[1:]


def test_each_criterion_and_labeller_has_labels_of_its_own(url: str, tmp_path: Path) -> None:
    label(url, "--criterion", "Is it polite?", "--limit", "1", keys="y")
    label(url, "--limit", "1", keys="y")
    label(url, "--limit", "1", "--by", "bo", keys="n")
    with Store.open(url) as store:
        found = [(e.criterion, e.labeller, e.value) for e in store.labels.list()]
    assert found == [("Is it polite?", "ana", 1), ("", "ana", 1), ("", "bo", 0)]


def test_contradictions_are_named(url: str, tmp_path: Path) -> None:
    lines = [
        {"rollout_id": "sure", "value": True},
        {"rollout_id": "sure", "value": 0, "labeller": "bo"},
        {"rollout_id": "near", "value": 0.4, "drawn": "random", "comment": "Almost."},
    ]
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    done = label(url, "--import", str(file))
    assert "3 labels stored." in done.stdout
    assert "Contradiction on sure: right by ana, wrong by bo." in done.stdout
    again = json.loads(label(url, "--import", str(file), "--json").stdout)
    assert again["stored"] == 3
    (named,) = again["contradictions"]
    assert (named["subject"], named["right"], named["wrong"]) == ("sure", ["ana"], ["bo"])
    with Store.open(url) as store:
        assert len(store.labels.list()) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"rollout_id": "sure", "value": 1}\n{"rollout_id": "sure"}', "line 2: Object missing"),
        (b'{"rollout_id": "sure", "value": 17.3}', "line 1: A label must be a number from 0 to 1."),
        (b'{"rollout_id": "gone", "value": 1}', "there is no rollout 'gone'"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_is_named_and_nothing_of_it_is_stored(
    url: str, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "labels.jsonl"
    if content is not None:
        file.write_bytes(content)
    done = label(url, "--import", str(file))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert stored(url) == {}


def test_keys_work_without_return_in_a_terminal(url: str) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "ratchet", "label", "--store", url]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.PIPE, text=True, bufsize=0, env=environ
    ) as process:
        os.close(terminal)
        try:
            said = _answered(process, controller, "nq")
        finally:
            process.kill()
            os.close(controller)
    assert "1 label stored." in said
    assert [each.value for each in stored(url).values()] == [0.0]


def _answered(process: subprocess.Popen[str], controller: int, keys: str) -> str:
    """Press a key whenever one is asked for; what was printed until the end."""
    assert process.stdout is not None
    said, left = "", list(keys)
    while (letter := process.stdout.read(1)) != "":
        said += letter
        if said.endswith("quit] "):
            wait_for_raw_mode(controller)
            os.write(controller, left.pop(0).encode())
    return said


def wait_for_raw_mode(controller: int) -> None:
    """Until the terminal gives out keys as they are pressed: what came before is dropped."""
    while termios.tcgetattr(controller)[3] & termios.ICANON:
        pass


SECOND = 1_000_000_000


def question(number: int, text: str, reply: str, **fields: Any) -> SpanRecord:
    """A trace of one model call in the conversation `chat`."""
    asked, said = (
        json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])
        for role, content in (("user", text), ("assistant", reply))
    )
    agent = fields.pop("agent", "support")
    return SpanRecord(
        span=Span(
            trace_id=f"{number:032x}",
            span_id=f"{number:016x}",
            name="chat model",
            start_ns=number * SECOND,
            end_ns=(number + 1) * SECOND,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.conversation.id": "chat",
                "gen_ai.input.messages": asked,
                "gen_ai.output.messages": said,
                "gen_ai.usage.input_tokens": 3,
                "gen_ai.usage.output_tokens": 4,
            },
            **fields,
        ),
        agent=agent,
    )


@pytest.fixture
def live(url: str) -> str:
    """A store with two turns of a conversation, the first disliked, and a judge's call."""
    with Store.open(url) as store:
        store.spans.put(
            [
                question(1, "Which room is free?", "Elm \x1b[31mis."),
                question(5, "And at noon?", "Oak is."),
                question(9, "c1. Is it right?", "yes", agent="judge"),
            ]
        )
        disliked = Feedback(id="f", kind="thumbs", value=0.0, trace_id=f"{1:032x}")
        store.feedback.add([disliked], 1.0)
    return url


def test_live_traces_are_labelled_by_the_same_keys_with_their_conversation(live: str) -> None:
    done = label(live, "--traces", keys="n\nt4\n")
    assert done.returncode == 0, done.stderr
    with Store.open(live) as store:
        found = {each.trace_id: each for each in store.labels.list()}
    first, second = f"{1:032x}", f"{5:032x}"
    assert [*found] == [first, second]  # the disliked one comes first
    assert [each.value for each in found.values()] == [0.0, 0.8]
    assert {(each.rollout_id, each.drawn, each.labeller) for each in found.values()} == {
        ("", "chosen", "ana")
    }
    before, _, after = done.stdout.partition("2 of 2")
    assert "Conversation" not in before
    assert "Which room is free?" in after.partition("Input")[0]
    assert "And at noon?" in after
    assert "\x1b[31m" not in done.stdout
    shown = after.partition("q quit]")[2]
    assert "chat model  1.00 s" in shown  # the steps, on demand
    assert after.count("And at noon?") == 1  # and the case is not shown again
    assert "no live trace is without your label" in label(live, "--traces").stdout


def test_live_traces_to_label_are_listed_for_other_tools(live: str) -> None:
    found = json.loads(label(live, "--traces", "--random", "--json").stdout)
    assert found["drawn"] == "random"
    assert {case["input"] for case in found["cases"]} == {"Which room is free?", "And at noon?"}
    assert {case["output"] for case in found["cases"]} >= {"Oak is."}
    only = json.loads(label(live, "--traces", "--agent", "judge", "--json").stdout)
    assert len(only["cases"]) == 1
