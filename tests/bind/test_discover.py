"""Templates proposed from recorded prompts."""

from __future__ import annotations

import datetime
import random
import re
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import calls

from ratchet.bind.align import align
from ratchet.bind.discover import Discovery, TemplateProposal, discover
from ratchet.bind.recognise import MAX_TEXT, recognise, refill, refusal, shape_of
from ratchet.bind.slot_names import slot_names

WORDS = re.findall(
    r"\w+",
    "refund policy customer please order item shipping returns window days the of and a to for"
    " with late early email phone support contact ticket issue solve quickly slow price cost euro",
)
PEOPLE = ("Ann", "Bob", "Carla", "Dmitri", "Eve", "Farid", "Grace", "Hiro")

BOOKING = (
    "You are a booking assistant for ACME.\nToday is {date}, and it is {time}.\nThe user {user}"
    ' asks.\n\nDocuments:\n{documents}\n\nAnswer with JSON such as {{"answer": "..."}}. Be brief.'
    " Never invent anything that is not in the documents."
)
TRANSLATING = (
    "You translate for ACME from English into {language}. Keep the tone of the original, keep names"
    " as they are, and do not explain anything.\nUser: {user}\nBe brief. Never invent anything."
)
NAMING = "You name conversations of ACME in at most five words. Be brief. Never invent anything."
JUDGING = (
    "<context>\n{context}\n</context>\nYou judge whether the answer to the question follows from"
    " the context above. Say yes or no.\n<question>\n{question}\n</question>"
)


class Agent:
    """Makes prompts as an agent would."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.library = ["\n".join(self.words(40) for _ in range(3)) for _ in range(40)]

    def words(self, count: int) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(count))

    def booking(self) -> str:
        day = datetime.date(2026, 1, 1) + datetime.timedelta(self.random.randrange(400))
        return BOOKING.format(
            date=f"{day:%A}, {day.day} {day:%B %Y}",
            time=f"{self.random.randrange(1, 13)}:{self.random.randrange(10, 60)} PM",
            user=self.random.choice(PEOPLE),
            documents="\n\n".join(self.random.sample(self.library, self.random.randrange(1, 4))),
        )

    def translating(self) -> str:
        language = self.random.choice(["French", "German", "Thai"])
        return TRANSLATING.format(language=language, user=self.random.choice(PEOPLE))

    def naming(self) -> str:
        return NAMING

    def judging(self) -> str:
        context = f"{self.words(20)}\n{self.words(30)}"
        return JUDGING.format(context=context, question=self.words(9))


def made(*makers: Callable[[], str], times: int) -> list[tuple[str, int]]:
    return [(maker(), 1) for _ in range(times) for maker in makers]


def texts_of(discovery: Discovery) -> list[str]:
    return [proposal.template.text for proposal in discovery.proposals]


def test_a_template_with_dates_names_and_documents_is_found_and_its_slots_are_named() -> None:
    found = discover(made(Agent(1).booking, times=60))
    assert texts_of(found) == [BOOKING]
    (proposal,) = found.proposals
    slots = {slot.name: slot for slot in proposal.slots}
    assert list(slots) == ["date", "time", "user", "documents"]
    assert set(slots["user"].examples) <= set(PEOPLE)
    assert 1 < slots["user"].different <= len(PEOPLE)
    assert any("\n\n" in example for example in slots["documents"].examples)
    assert (proposal.texts, proposal.count, proposal.share) == (60, 60, 1.0)


def test_the_prompts_of_an_agent_are_told_apart_though_they_share_sentences() -> None:
    agent = Agent(2)
    some = made(agent.booking, agent.translating, agent.naming, agent.judging, times=50)
    found = discover(some)
    # How a slot is named matters less than that it is one.
    wanted = {BOOKING, TRANSLATING.replace("{language}", "{slot_1}"), NAMING, JUDGING}
    assert set(texts_of(found)) == wanted
    assert sum(proposal.count for proposal in found.proposals) == found.total == 200
    assert not found.left_out


def test_a_prompt_that_is_rare_has_its_turn() -> None:
    agent = Agent(3)
    some = made(agent.booking, times=2000) + made(agent.judging, times=4)
    found = discover(some)
    assert [proposal.count for proposal in found.proposals] == [2000, 4]
    assert JUDGING in texts_of(found)


@pytest.mark.parametrize("times", [2, 3, 4, 7])
def test_few_samples_are_enough_when_much_of_the_text_is_constant(times: int) -> None:
    found = discover(made(Agent(4).booking, times=times))
    (proposal,) = found.proposals
    assert proposal.count == times
    assert "You are a booking assistant for ACME.\nToday is {date}" in proposal.template.text
    assert proposal.template.text.endswith("Never invent anything that is not in the documents.")


def test_literal_braces_are_doubled() -> None:
    text = 'Answer with JSON: {{"a": {{}}}} or {} and nothing else, whatever the user says.'
    found = discover([(text.format(word), 1) for word in ("one", "two", "three", "four", "five")])
    (proposal,) = found.proposals
    assert proposal.template.text == (
        'Answer with JSON: {{"a": {{}}}} or {slot_1} and nothing else, whatever the user says.'
    )


def test_texts_that_have_nothing_in_common_make_no_template() -> None:
    agent = Agent(6)
    found = discover([(agent.words(40), 1) for _ in range(200)])
    assert found.proposals == ()
    assert found.left_out == {"like no other": 200}


def test_what_cannot_be_recognised_is_left_out_with_the_reason() -> None:
    found = discover([("", 3), (" \n", 2), ("x" * (MAX_TEXT + 1), 4), (NAMING, 2)])
    assert found.left_out == {"empty": 5, "longer than can be recognised": 4}
    assert found.total == 11
    assert texts_of(found) == [NAMING]
    assert discover([]) == Discovery((), 0, {})


def recognised(proposal: TemplateProposal, texts: Iterator[str]) -> int:
    return sum(recognise(proposal.template, text) is not None for text in texts)


PIECES = st.sampled_from(
    [
        "You are a helpful assistant of the company that sells shoes",
        "\nToday is ",
        " {x} and {{y}} ",
        "\n\nContext:\n",
        "Answer in one sentence, and never invent anything at all.",
        ". ",
        "",
    ]
)
VALUES = st.sampled_from(["Ann", "Bob {z}", "2026-11-02", "a\nb\n\nc", "", "the the the", "x" * 50])


@st.composite
def recorded(draw: st.DrawFn) -> list[tuple[str, int]]:
    texts: list[tuple[str, int]] = []
    for _ in range(draw(st.integers(1, 3))):
        pieces = draw(st.lists(PIECES, min_size=1, max_size=6))
        for _ in range(draw(st.integers(1, 12))):
            text = "".join(part + draw(VALUES) for part in pieces)
            texts.append((text, draw(st.integers(1, 20))))
    return texts


@given(recorded())
def test_every_text_that_is_counted_is_recognised_by_its_proposal(
    texts: list[tuple[str, int]],
) -> None:
    found = discover(texts)
    counts: dict[str, int] = {}
    for text, count in texts:
        plain = text.strip()
        counts[plain] = counts.get(plain, 0) + count
    for proposal in found.proposals:
        assert refusal(proposal.template) == ""
        assert [slot.name for slot in proposal.slots] == list(shape_of(proposal.template).slots)
        fitting = [text for text in counts if recognise(proposal.template, text) is not None]
        assert len(fitting) >= proposal.texts
        assert sum(counts[text] for text in fitting) >= proposal.count
        for text in fitting:
            slots = recognise(proposal.template, text) or {}
            assert refill(proposal.template, slots).strip() == text
    proposed = sum(proposal.count for proposal in found.proposals)
    assert proposed + sum(found.left_out.values()) == found.total == sum(counts.values())


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
def test_the_constant_pieces_of_any_texts_stand_in_all_of_them_in_order(texts: list[str]) -> None:
    pieces = align(texts)
    for text in texts:
        assert text.startswith(pieces[0])
        assert text.endswith(pieces[-1])
        at = 0
        for piece in pieces:
            place = text.find(piece, at)
            assert place >= 0
            at = place + len(piece)
    if len(set(texts)) == 1:
        assert pieces == texts[:1]


@pytest.mark.parametrize(
    ("before", "values", "name"),
    [
        ("…\nDate: ", ["x", "y"], "date"),
        ("…\nThe user's name = ", ["x"], "s_name"),
        ("**Retrieved documents:**\n", ["x"], "retrieved_documents"),
        ("## Retrieved documents\n\n", ["x"], "retrieved_documents"),
        ("<user_profile>\n", ["x"], "user_profile"),
        ("Class: ", ["x"], "class_"),
        ("It is ", ["2026-11-02", "2026-11-03"], "date"),
        ("It is ", ["2 November 2026", "13 Dec 2026"], "date"),
        ("It is ", ["10:30", "9:15 PM"], "time"),
        ("write to ", ["a@b.example"], "email"),
        ("at most ", ["3", "4.5"], "number"),
        ("for the customer ", ["x"], "customer"),
        ("somewhat ", ["x"], "slot_1"),
        ("", [""], "slot_1"),
        ("日付: ", ["x"], "日付"),
    ],
)
def test_slots_are_named_by_what_stands_before_them_or_by_what_fills_them(
    before: str, values: list[str], name: str
) -> None:
    assert slot_names([before, ""], [values]) == [name]


@pytest.mark.long
def test_the_work_grows_with_the_texts_and_no_faster() -> None:
    agent = Agent(8)
    makers = [agent.booking, agent.booking, agent.booking, agent.translating, agent.judging]
    some, many = made(*makers, times=100), made(*makers, times=400)
    found = discover(many)
    assert {proposal.template.text for proposal in found.proposals} >= {BOOKING, JUDGING}
    assert not found.left_out
    of_many, of_some = calls(lambda: discover(many)), calls(lambda: discover(some))
    assert of_many < 4.8 * of_some


@pytest.mark.parametrize(
    "texts",
    [
        ["a b " * 20_000 + str(number) for number in range(40)],
        ["ab" * 20_000 + str(number) for number in range(40)],
        [f"{number} " * 10_000 for number in range(40)],
        [" ".join(map(str, range(number, 20_000 + number))) for number in range(15)],
    ],
    ids=["repeated", "one word", "nothing in common", "shifted"],
)
@pytest.mark.long
def test_long_texts_that_are_hard_to_align_take_no_longer(texts: list[str]) -> None:
    began = time.thread_time()
    discover([(text, 1) for text in texts])
    # Of this thread's own work, not of the clock. Aligning them as others are takes many minutes.
    assert time.thread_time() - began < 60
