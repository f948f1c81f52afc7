"""FewShot: demonstrations that help are found, escaped, redacted, and proven on val."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given as given_
from hypothesis import strategies as st

from ratchet.evaluate import FunctionEvaluator
from ratchet.learn import Budget, Finding, Proposal
from ratchet.learn.checks.check import Checks
from ratchet.learn.checks.prompt_text import keeps_prompt
from ratchet.learn.demonstrations import (
    Demonstration,
    covering,
    likeness,
    vectors,
    with_section,
)
from ratchet.learn.few_shot import FewShot
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    InputError,
    Int,
    Params,
    PromptTemplate,
    Span,
    Task,
)
from tests.learn.conftest import Answer, FakeRunner, Killed, MakeStore, make_lab, tasks

SOURCE = Candidate.of({"system": PromptTemplate("You say what kind a number is. {question}")})


def kinds_shown(prompt: str) -> set[int]:
    """What the examples in a prompt are about: numbers by their remainder."""
    return {int(nr) % 5 for nr in re.findall(r'"nr":(\d+)', prompt)}


def imitates(resources: Any, given: Any) -> float:
    """Right of itself for two kinds of five; for others when an example of them is shown."""
    prompt = resources["system"].text.replace("{{", "{").replace("}}", "}")
    kind = given["nr"] % 5
    known = kind in (0, 1) or kind in kinds_shown(prompt) or given["nr"] in (2, 3, 4)
    return float(known)


class Learned(msgspec.Struct):
    finding: Finding
    proposals: list[Proposal]
    runner: FakeRunner
    spent: int


def learn(
    store: Store,
    few_shot: FewShot | None = None,
    *,
    answer: Answer = imitates,
    baseline: Candidate = SOURCE,
    rollouts: int | None = 300,
    order: int = 0,
    dies_after: int | None = None,
    **options: Any,
) -> Learned:
    proposals: list[Proposal] = []
    runner = FakeRunner(store, answer, order=order, dies_after=dies_after)
    budget = options.pop("budget", Budget(rollouts=rollouts))
    lab = make_lab(
        runner, store, baseline, budget=budget, on_proposal=proposals.append,
        val=options.pop("val", 20), **options,
    )  # fmt: skip
    finding = asyncio.run((few_shot or FewShot()).learn(lab))
    return Learned(finding, proposals, runner, lab.spent.rollouts)


def text_of(finding: Finding) -> str:
    template = finding.best.resources["system"]
    assert isinstance(template, PromptTemplate)
    return template.text


def test_it_finds_a_set_of_examples_that_helps(make_store: MakeStore) -> None:
    found = learn(make_store())
    assert found.finding.best_val > found.finding.baseline_val + 0.1
    assert found.finding.best.algorithm == "few_shot"
    assert "examples from train tasks" in found.finding.best.reason
    assert text_of(found.finding).startswith("You say what kind a number is. {question}\n\n# Examp")
    assert found.finding.best.resources["system"].placeholders == {"question"}  # type: ignore[union-attr]
    assert found.spent == found.runner.executed.total() <= 300


@pytest.mark.parametrize("words", [180, 3_000])
def test_long_examples_are_shortened_so_that_the_prompt_keeps_its_allowed_length(
    make_store: MakeStore, words: int
) -> None:
    refused = []

    async def keeps_length(candidate: Candidate) -> str:
        fault = await Checks(SOURCE, [keeps_prompt()])(candidate)
        refused.extend([fault] * bool(fault))
        return fault

    store = make_store()
    runner = FakeRunner(store, imitates)
    lab = make_lab(runner, store, SOURCE, budget=Budget(rollouts=300), val=20, checks=keeps_length)
    lab.train, lab.val = (
        tuple(
            msgspec.structs.replace(task, input={**task.input, "text": "long " * words})
            for task in split
        )
        for split in (lab.train, lab.val)
    )
    finding = asyncio.run(FewShot().learn(lab))
    assert finding.best_val > finding.baseline_val
    assert (refused, len(text_of(finding)) <= 4_000) == ([], True)


def test_demonstrations_are_of_train_tasks_that_went_well(make_store: MakeStore) -> None:
    found = learn(make_store())
    text = text_of(found.finding).replace("{{", "{").replace("}}", "}")
    assert '"split":"val"' not in text
    shown = [int(nr) for nr in re.findall(r'"nr":(\d+)', text)]
    assert shown
    assert all(imitates(SOURCE.resources, {"nr": nr}) == 1.0 for nr in shown)


def test_examples_that_do_not_help_are_left_out(make_store: MakeStore) -> None:
    found = learn(make_store(), answer=lambda _, given: float(given["nr"] % 2))
    assert found.finding.best == SOURCE
    assert found.finding.best_val == found.finding.baseline_val
    harmful = learn(
        make_store(),
        answer=lambda r, given: float(given["nr"] % 2) * (len(r["system"].text) < 60),
    )
    assert harmful.finding.best == SOURCE


def test_examples_with_personal_data_are_left_out_and_counted(make_store: MakeStore) -> None:
    store, notes = make_store(), list[str]()
    lab = make_lab(
        FakeRunner(store, imitates),
        store,
        SOURCE,
        budget=Budget(rollouts=300),
        val=20,
        on_note=notes.append,
    )
    marked = ("ann@example.com", "[redacted:phone]")
    lab.train = tuple(
        msgspec.structs.replace(task, input={**task.input, "from": marked[number % 2]})
        if number < 4
        else task
        for number, task in enumerate(tasks("train", 40))
    )
    finding = asyncio.run(FewShot().learn(lab))
    assert finding.best != SOURCE
    assert "ann@example.com" not in text_of(finding)
    assert "[redacted:" not in text_of(finding)
    assert [note for note in notes if "examples are not put into a prompt" in note]


def labelled(prefix: str, expected: float) -> tuple[Task, ...]:
    return tuple(msgspec.structs.replace(t, expected=expected) for t in tasks(prefix, 40))


def of_labelled(store: Store, expected: float, *, dies_after: int | None = None) -> Learned:
    """A search over an agent that answers nothing rightly before it sees an example."""
    proposals: list[Proposal] = []
    runner = FakeRunner(
        store, lambda r, _: float("# Examples" in r["system"].text), dies_after=dies_after
    )
    lab = make_lab(
        runner, store, SOURCE, budget=Budget(rollouts=300), on_proposal=proposals.append, val=20
    )
    lab.train = labelled("train", expected)
    return Learned(asyncio.run(FewShot().learn(lab)), proposals, runner, lab.spent.rollouts)


def test_where_the_agent_fails_expected_answers_with_full_marks_are_shown(
    make_store: MakeStore,
) -> None:
    found = of_labelled(make_store(), 1.0)
    assert (found.finding.baseline_val, found.finding.best_val) == (0.0, 1.0)
    assert "with their expected answers" in found.finding.best.reason
    assert "Output: 1.0" in text_of(found.finding)


@pytest.mark.parametrize(("whole", "shown"), [(True, True), (False, False)])
def test_what_a_longer_answer_must_only_contain_is_no_example(
    whole: bool, shown: bool, make_store: MakeStore
) -> None:
    def judge(output: str, expected: str) -> float:
        return float(output == expected if whole else expected in output)

    def answer(resources: Any, _: Any) -> str:
        long_answer = "It depends on where you ask, and on whom, for both matter a lot."
        return "red" if "# Examples" in resources["system"].text else long_answer

    store = make_store()
    runner = FakeRunner(store, answer)  # type: ignore[arg-type]
    evaluator = FunctionEvaluator(judge, name="objective", trusted=True)
    lab = make_lab(runner, store, SOURCE, budget=Budget(rollouts=300), val=20, evaluator=evaluator)
    lab.train, lab.val = (
        tuple(msgspec.structs.replace(task, expected="red") for task in split)
        for split in (lab.train, lab.val)
    )
    finding = asyncio.run(FewShot().learn(lab))
    assert ("Output: red" in text_of(finding)) == shown


def test_what_an_expected_answer_was_rated_holds_when_the_run_is_resumed(
    make_store: MakeStore,
) -> None:
    store = make_store()
    with pytest.raises(Killed):
        of_labelled(store, 1.0, dies_after=60)
    rated = [key for key, _ in store.journal.read("run0") if key.startswith("rate/")]
    assert len(rated) == 40
    resumed = of_labelled(store, 1.0)
    assert resumed.finding == of_labelled(make_store(), 1.0).finding


@pytest.mark.parametrize("rollouts", [16, 17, 30, 60, 120])
def test_it_never_exceeds_its_budget(make_store: MakeStore, rollouts: int) -> None:
    found = learn(make_store(), rollouts=rollouts)
    assert found.spent == found.runner.executed.total() <= rollouts


def test_bad_input_is_told(make_store: MakeStore) -> None:
    numbers = Candidate.of({"k": Params({"k": Int(3, 1, 5)})})
    with pytest.raises(InputError, match="no prompt to put demonstrations in"):
        learn(make_store(), baseline=numbers)
    with pytest.raises(InputError, match="There are no val tasks"):
        learn(make_store(), val=0)
    with pytest.raises(InputError, match="No train task has a score"):
        learn(make_store(), answer=lambda *_: 7.0)
    for options in ({"sets": 0}, {"max_tokens": 1.5}, {"val_batch_size": True}):
        with pytest.raises(InputError, match=r"FewShot\("):
            FewShot(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("dies_after", [0, 5, 40, 61, 99, 120, 140])
def test_a_killed_search_executes_only_what_is_missing_and_finds_the_same(
    make_store: MakeStore, dies_after: int
) -> None:
    whole = learn(make_store())
    store = make_store()
    with pytest.raises(Killed):
        learn(store, order=1, dies_after=dies_after)
    done = sum(store.rollouts.counts().values())
    resumed = learn(store, order=2)
    assert resumed.finding == whole.finding
    assert [p.candidate_id for p in resumed.proposals] == [p.candidate_id for p in whole.proposals]
    assert done + resumed.runner.executed.total() == whole.spent


def test_demonstrations_of_a_set_cover_what_they_are_to_help_with() -> None:
    texts = ["red car", "red cars", "red car fast", "blue boat", "green tree"]
    space = vectors(texts)
    similar = [[likeness(one, other) for other in space] for one in space]
    taken = covering(similar, [1.0] * 5, [10] * 5, count=3, room=100)
    assert {3, 4} <= set(taken)
    assert len(set(taken) & {0, 1, 2}) == 1
    assert len(covering(similar, [1.0] * 5, [10] * 5, count=5, room=25)) == 2
    assert covering(similar, [1.0] * 5, [99] * 5, count=5, room=25) == []


@given_(st.text(max_size=120), st.sampled_from(["f-string", "jinja2"]))
def test_whatever_a_demonstration_holds_is_printed_as_it_is(text: str, engine: Any) -> None:
    slot = "{q}" if engine == "f-string" else "{{ q }}"
    template = PromptTemplate(f"Say: {slot}", engine)
    made = with_section(template, [Demonstration("a", text, "{{ x }} {%if%} {y}")])
    printed = made.format(q="?")
    assert made.placeholders == {"q"}
    assert printed.startswith("Say: ?")
    same = f"Input: {text}\nOutput: {{{{ x }}}} {{%if%}} {{y}}"
    if engine == "jinja2":  # it writes all line ends alike
        same = same.replace("\r\n", "\n").replace("\r", "\n")
    assert same in printed


@pytest.mark.parametrize(
    ("template", "slot", "before"),
    [
        ("Say the capital.\n\nCountry: {country}\nCapital:", "country", "Country: {country}"),
        ("You answer from:\n{notes}\n\n<question>\n{question}\n</question>\nBe brief.",
         "question", "<question>"),
        ("Translate {text} to French.", "text", "Translate {text}"),
        ("Write {{text}} for {{{text}}}.\nText: {text}", "text", "Write {{text}}"),
        ("# Rules\nBe brief.\n\n## Ticket\n```\n{ticket}\n```", "ticket", "## Ticket"),
    ],
)  # fmt: skip
def test_examples_stand_before_the_task_and_what_labels_it(
    template: str, slot: str, before: str
) -> None:
    shown = [Demonstration("a", "in", "out")]
    made = with_section(PromptTemplate(template), shown, slot).text
    assert f"Output: out\n\n{before}" in made
    assert made.rstrip().endswith(template[template.index(before) :])


class TracedRunner(FakeRunner):
    """Its rollouts have a trace of one model call, with the prompt as it was sent."""

    async def run(self, rollouts: Any, candidates: Any, on_finish: Any = None) -> Any:
        ended = await super().run(rollouts, candidates, on_finish)
        prompts = {candidate.id: candidate.resources["system"] for candidate in candidates}
        for rollout in ended.values():
            template = prompts[rollout.candidate_id]
            sent = template.format(rules="Rules: none.", question=rollout.input["nr"])
            message = {"role": "user", "parts": [{"type": "text", "content": sent}]}
            call = Span(
                trace_id="a" * 32, span_id="b" * 16, parent_id=None, name="chat", start_ns=1,
                end_ns=2, attributes={"gen_ai.input.messages": json.dumps([message])},
            )  # fmt: skip
            self.store.spans.add(rollout.id, rollout.fence, [call])
        return ended


class TwoStepRunner(FakeRunner):
    """Its rollouts plan first, and then answer."""

    async def run(self, rollouts: Any, candidates: Any, on_finish: Any = None) -> Any:
        ended = await super().run(rollouts, candidates, on_finish)
        for rollout in ended.values():
            nr = rollout.input["nr"]
            said = str(rollout.output)
            steps = [
                ("You plan.", f"Plan {nr}", f"Step for {nr}"),
                ("You answer.", str(nr), said),
            ]
            spans = []
            for number, (system, asked, said) in enumerate(steps):
                texts = [("system", system), ("user", asked)]
                messages = [
                    {"role": role, "parts": [{"type": "text", "content": text}]}
                    for role, text in texts
                ]
                answered = [{"role": "assistant", "parts": [{"type": "text", "content": said}]}]
                attributes = {
                    "gen_ai.input.messages": json.dumps(messages),
                    "gen_ai.output.messages": json.dumps(answered),
                }
                spans.append(Span(
                    trace_id="a" * 32, span_id=f"{number}" * 16, parent_id=None, name="chat",
                    start_ns=number, end_ns=number + 1, attributes=attributes,
                ))  # fmt: skip
            self.store.spans.add(rollout.id, rollout.fence, spans)
        return ended


def test_a_prompt_that_is_one_of_several_gets_the_calls_that_sent_it(
    make_store: MakeStore,
) -> None:
    store = make_store()
    prompts = {"plan": PromptTemplate("You plan."), "system": PromptTemplate("You answer.")}
    lab = make_lab(
        TwoStepRunner(
            store, lambda r, given: float("# Examples" in r["plan"].text or given["nr"] % 2)
        ),
        store,
        Candidate.of(prompts),
        budget=Budget(rollouts=300),
        val=20,
    )
    best = asyncio.run(FewShot().learn(lab.part("plan", only=["plan"]))).best
    plan = best.resources["plan"]
    assert isinstance(plan, PromptTemplate)
    assert re.search(r"Input: Plan (\d+)\nOutput: Step for \1\n", plan.text), plan.text


def test_the_prompt_whose_call_answers_the_task_is_shown_expected_answers(
    make_store: MakeStore,
) -> None:
    store = make_store()
    prompts = {"plan": PromptTemplate("You plan."), "system": PromptTemplate("You answer.")}
    runner = TwoStepRunner(store, lambda r, _: float("# Examples" in r["system"].text))
    lab = make_lab(runner, store, Candidate.of(prompts), budget=Budget(rollouts=300), val=20)
    lab.train = labelled("train", 1.0)
    for target, shown in (("plan", False), ("system", True)):
        finding = asyncio.run(FewShot().learn(lab.part(target, only=[target])))
        prompt = finding.best.resources[target]
        assert isinstance(prompt, PromptTemplate)
        assert ("Output: 1.0" in prompt.text) == shown


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{rules}\nYou say what kind a number is.", "Number: {question}"),
        ("You say what kind a number is.\n{rules}", ""),
    ],
)
def test_the_placeholder_whose_values_differ_holds_the_task(
    make_store: MakeStore, before: str, after: str
) -> None:
    store = make_store()
    baseline = Candidate.of({"system": PromptTemplate(f"{before}\n{after}")})
    runner = TracedRunner(store, imitates)
    lab = make_lab(runner, store, baseline, budget=Budget(rollouts=300), val=20)
    made = text_of(asyncio.run(FewShot().learn(lab)))
    assert made.startswith(f"{before}\n\n# Examples\n")
    assert made.rstrip().endswith(after or "Output: 1.0")
