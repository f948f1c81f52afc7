"""Which versions a live call runs: the release's, or a canary's, for as long as it may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.clocks import Clock

from ratchet.bind import context
from ratchet.bind.live import CONVERSATION_TTL_S, CONVERSATIONS, LiveChooser
from ratchet.bind.live_changes import check_live
from ratchet.types import (
    Candidate,
    Code,
    InputError,
    LiveVersions,
    PromptTemplate,
    TrafficSplit,
    short_version,
    unit_digest,
)
from ratchet.types.trace import ARM, CANDIDATE, EXPERIMENT, RELEASE, RESOURCES, UNIT


def released(id: str, *earlier: str, **fields: Any) -> LiveVersions:
    given: dict[str, Any] = {
        "agent": "bot",
        "release_id": id,
        "release": {"system": PromptTemplate(id)} if id else {},
        "standing": ("", *earlier, id) if id else ("",),
    }
    return LiveVersions(**{**given, **fields})


def canary(enrolled: float = 1.0, experiment_id: str = "e") -> dict[str, Any]:
    split = TrafficSplit(
        agent="bot", experiment_id=experiment_id, candidate_id="new", enrolled=enrolled
    )
    return {"split": split, "candidate": {"system": PromptTemplate("new")}}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def chooser(clock: Clock) -> Iterator[LiveChooser]:
    made = LiveChooser(clock)
    yield made
    made.serve(None)


def system(chooser: LiveChooser, unit: str, *, conversation: bool = True) -> str:
    chosen = chooser.choose(unit, conversation=conversation)
    found = None if chosen is None else chosen.resources.get("system")
    return found.text if isinstance(found, PromptTemplate) else ""


def attributes(chooser: LiveChooser, unit: str, *, conversation: bool = True) -> dict[str, str]:
    chosen = chooser.choose(unit, conversation=conversation)
    return {} if chosen is None else chosen.attributes


def test_before_anything_is_known_the_source_runs(chooser: LiveChooser) -> None:
    assert (system(chooser, "u"), attributes(chooser, "u")) == ("", {})


def test_a_call_runs_the_release_and_says_so(chooser: LiveChooser) -> None:
    chooser.serve(released("one"))
    assert system(chooser, "u") == "one"
    assert attributes(chooser, "u") == {CANDIDATE: "one"}
    assert context.resolve("system") == PromptTemplate("one"), "outside a call too"


def test_a_call_says_the_version_of_each_resource_that_it_runs() -> None:
    source = {"system": "s0", "tone": "t0"}
    chooser = LiveChooser(serve=lambda _: None, declared=lambda: source, deployed="v7")
    chooser.serve(released(""))
    own = chooser.choose("call", conversation=False)
    chooser.serve(released("r1"))
    replaced = chooser.choose("call", conversation=False)
    assert own is not None
    assert replaced is not None
    assert own.attributes == {RESOURCES: ["system@s0", "tone@t0"], RELEASE: "v7"}
    version = short_version(PromptTemplate("r1"))
    assert replaced.attributes[RESOURCES] == [f"system@{version}", "tone@t0"]
    source = {"system": "s1"}
    edited = chooser.choose("call", conversation=False)
    assert edited is not None
    assert edited.attributes[RESOURCES] == [f"system@{version}"]


def test_a_canary_gives_half_of_its_units_the_candidate_and_says_which(
    chooser: LiveChooser,
) -> None:
    chooser.serve(released("one", **canary()))
    seen = Counter(attributes(chooser, f"u{n}")[ARM] for n in range(2_000))
    assert abs(seen["candidate"] - 1_000) < 100
    for number in range(20):
        unit = f"u{number}"
        found = attributes(chooser, unit)
        version = "new" if found[ARM] == "candidate" else "one"
        assert found[CANDIDATE] == system(chooser, unit) == version
        assert (found[EXPERIMENT], found[UNIT]) == ("e", unit_digest(unit))


def test_a_ramp_only_adds_units(chooser: LiveChooser) -> None:
    units = [f"u{n}" for n in range(3_000)]
    before: dict[str, str] = {}
    for enrolled in (0.02, 0.1, 0.2, 0.5, 1.0):
        chooser.serve(released("", **canary(enrolled)))
        arms = {u: attributes(chooser, u, conversation=False).get(ARM, "") for u in units}
        assert all(arms[unit] == arm for unit, arm in before.items() if arm)
        before = arms
    assert all(before.values())


def test_a_conversation_keeps_its_release_when_another_follows(chooser: LiveChooser) -> None:
    chooser.serve(released("one"))
    assert system(chooser, "talk") == "one"
    chooser.serve(released("two", "one"))
    assert system(chooser, "talk") == "one"
    assert (system(chooser, "new talk"), system(chooser, "call", conversation=False)) == (
        "two",
        "two",
    )


def test_a_conversation_that_began_with_the_source_keeps_it(chooser: LiveChooser) -> None:
    chooser.serve(released(""))
    assert system(chooser, "talk") == ""
    chooser.serve(released("one"))
    assert system(chooser, "talk") == ""


def test_a_withdrawn_release_is_taken_from_conversations_too(chooser: LiveChooser) -> None:
    chooser.serve(released("one"))
    chooser.serve(released("two", "one"))
    assert system(chooser, "talk") == "two"
    chooser.serve(released("one"))
    assert system(chooser, "talk") == "one"


def test_a_conversation_does_not_change_its_arm_when_the_canary_is_raised_or_begins(
    chooser: LiveChooser,
) -> None:
    chooser.serve(released("one"))
    talks = [f"t{n}" for n in range(50)]
    assert {system(chooser, talk) for talk in talks} == {"one"}
    chooser.serve(released("one", **canary()))
    assert {system(chooser, talk) for talk in talks} == {"one"}
    assert {attributes(chooser, talk).get(ARM, "") for talk in talks} == {""}, "and is not counted"


def test_a_stopped_canary_is_taken_from_conversations_and_a_promoted_one_is_not(
    chooser: LiveChooser,
) -> None:
    talks = [f"t{n}" for n in range(50)]
    chooser.serve(released("one", **canary()))
    treated = [talk for talk in talks if system(chooser, talk) == "new"]
    assert treated
    chooser.serve(released("new", "one"))
    assert {system(chooser, talk) for talk in treated} == {"new"}
    assert [attributes(chooser, talk) for talk in treated[:1]] == [{CANDIDATE: "new"}]
    rest = [talk for talk in talks if talk not in treated]
    assert {system(chooser, talk) for talk in rest} == {"one"}
    chooser.serve(released("one"))
    assert {system(chooser, talk) for talk in talks} == {"one"}


def test_a_conversation_is_remembered_for_a_day(chooser: LiveChooser, clock: Clock) -> None:
    chooser.serve(released("one"))
    system(chooser, "talk")
    chooser.serve(released("two", "one"))
    clock.now = CONVERSATION_TTL_S - 1
    assert system(chooser, "talk") == "one"
    clock.now = CONVERSATION_TTL_S
    assert system(chooser, "talk") == "two"


def test_memory_of_conversations_is_bounded(clock: Clock) -> None:
    chooser = LiveChooser(clock, conversations=10)
    chooser.serve(released("one"))
    for number in range(1_000):
        system(chooser, f"t{number}")
    assert len(chooser._kept) == 10
    assert CONVERSATIONS <= 100_000
    chooser.serve(None)


def test_what_determines_the_versions_changes_their_tag() -> None:
    base = released("one", **canary())
    assert base.tag == released("one", **canary()).tag
    others = [
        released("two"),
        released("one", **canary(0.5)),
        released("one", **canary(experiment_id="f")),
        msgspec.structs.replace(base, standing=("one",)),
    ]
    assert len({base.tag, *(other.tag for other in others)}) == 5


SOURCE = Candidate.of(
    {
        "rank": Code('def rank(a):\n    """Sorts."""\n    return a\n', "rank"),
        "system": PromptTemplate("Be brief."),
    }
)


def derived(source: str) -> Candidate:
    return SOURCE.derive({"rank": Code(source, "rank")}, algorithm="evolve")


def test_a_candidate_with_other_code_is_refused_for_live_agents() -> None:
    with pytest.raises(
        InputError, match=r"changes the code of 'rank'.*only run code that was merged"
    ):
        check_live(derived("def rank(a):\n    return a[::-1]\n"), [SOURCE])


def test_prompts_and_descriptions_of_tools_are_fine_for_live_agents() -> None:
    check_live(SOURCE, [SOURCE])
    check_live(SOURCE.derive({"system": PromptTemplate("Brief!")}, algorithm="apo"), [SOURCE])
    check_live(derived('def rank(a):\n    """Sorts, best first."""\n    return a\n'), [SOURCE])
