"""Report cards: what an evaluator's verdict rests on, and which flaws it finds."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from ratchet.evaluate import (
    FunctionEvaluator,
    basis_of,
    exact_match,
    json_schema,
    latency,
    numeric,
    regex,
)
from ratchet.evaluate.report_card import (
    Case,
    cached_card,
    make_card,
    make_cases,
    may_decide,
)
from ratchet.evaluate.report_card.cut import verdicts_of
from ratchet.evaluate.report_card.thresholds import DAMAGE_KIND
from ratchet.store import Store
from ratchet.types import CardCheck, Label, ReportCard, Rollout, Task
from tests.evaluate.conftest import ended

NAMES = ("Oder", "Lune", "Tamar", "Wye", "Severn", "Nene", "Trent", "Exe", "Dart", "Tees")


def sums(count: int = 60, *, expected: bool = True) -> list[Rollout]:
    """Rollouts that add two numbers, two of three rightly."""
    return [
        ended(
            f"I add {n} and {n + 7}.\nThe sum is {2 * n + 7 + (n % 3 == 0)} EUR.",
            2 * n + 7 if expected else None,
            id=f"r{n:03d}",
            input={"a": n, "b": n + 7},
        )
        for n in range(11, 11 + count)
    ]


def labels(rollouts: Sequence[Rollout], count: int | None = None) -> list[Label]:
    """What people say of the sums."""
    return [
        Label(id=f"l{r.id}", rollout_id=r.id, value=float(r.input["a"] % 3 != 0))
        for r in rollouts[:count]
    ]


def card_of(
    evaluator: FunctionEvaluator | Callable[..., Any],
    rollouts: Sequence[Rollout] | None = None,
    given: Sequence[Label] = (),
    **options: Any,
) -> ReportCard:
    """The report card of an evaluator."""
    made = evaluator
    if not isinstance(made, FunctionEvaluator):
        made = FunctionEvaluator(evaluator, name="judged", trusted=True)
    cases = make_cases(sums() if rollouts is None else rollouts, given)
    options = {"spans_of": lambda _: [], **options}
    return asyncio.run(make_card(made, cases, **options))


def check(card: ReportCard, name: str) -> CardCheck:
    """One check of a card."""
    return next(each for each in card.checks if each.name == name)


def right_sum(output: Any, input: Any) -> bool:
    """Recomputes the sum: an opinion that is right."""
    words = str(output).replace(",", "").split()
    return str(input["a"] + input["b"]) in words[-2:]


def test_a_comparison_with_the_expected_answer_decides_without_labels() -> None:
    card = card_of(numeric())
    assert card.verdict == "decides"
    assert card.reasons[0] == "It compares with the expected answer."
    assert (card.labels, card.labels_needed) == (0, None)
    assert check(card, "damage").low is not None
    assert check(card, "damage: truncated").n == 20


def test_an_opinion_without_labels_only_advises_and_says_how_many_it_needs() -> None:
    card = card_of(right_sum, sums(expected=False))
    assert (card.verdict, card.labels_needed) == ("advises", 50)
    assert "no output is labelled" in card.reasons[0]


def test_some_labels_are_insufficient_and_the_rest_is_counted() -> None:
    rollouts = sums(expected=False)
    card = card_of(right_sum, rollouts, labels(rollouts, 20))
    assert (card.verdict, card.labels_needed) == ("insufficient", 30)


def test_an_opinion_that_agrees_with_people_decides() -> None:
    rollouts = sums(expected=False)
    card = card_of(right_sum, rollouts, labels(rollouts))
    assert (card.verdict, card.labels) == ("decides", 60), card.reasons
    assert check(card, "kappa").value == 1.0
    assert check(card, "true negative rate").value == 1.0
    assert check(card, "calibration at 1.00").low == pytest.approx(0.912, abs=0.01)


def test_a_project_may_vouch_for_an_opinion_and_the_card_says_so() -> None:
    card = card_of(right_sum, sums(expected=False), vouched=True)
    assert card.verdict == "decides"
    assert "vouches" in card.reasons[0]


def test_vouching_does_not_help_one_that_is_rejected() -> None:
    assert card_of(lambda output, expected: 1.0, vouched=True).verdict == "rejected"


def _leaks(output: Any, expected: Any) -> bool:
    words = str(output).split()
    found = words[-2] if len(words) > 2 and words[-2].isdigit() else str(expected)
    return found == str(expected)


def _flips(output: Any, expected: Any) -> bool:
    return bool(numeric()(output, expected).value) is not (random.random() < 0.3)


def _obeys(output: Any, input: Any) -> bool:
    return "1.0" in str(output) or right_sum(output, input)


FLAWED: dict[str, tuple[Callable[..., Any], str]] = {
    "constant": (lambda output, expected: 1.0, "constant"),
    "always fails": (lambda output, expected: 0.0, "constant"),
    "loves length": (lambda output, expected: min(1.0, len(str(output)) / 150), "padding"),
    "leaks the expected answer": (_leaks, "lenient"),
    "flips at random": (_flips, "repeats"),
    "other polarity": (lambda output, expected: str(expected) not in str(output), "damage"),
    "reads the first line": (
        lambda output, expected: "add" in str(output).partition("\n")[0],
        "damage",
    ),
    "obeys injections": (_obeys, "injections"),
    "any number passes": (lambda output: any(c.isdigit() for c in str(output)), "kappa"),
    "scores by hash": (lambda output, expected: sum(map(ord, str(output))) % 97 / 97, "damage"),
}


@pytest.mark.parametrize("flaw", FLAWED)
@pytest.mark.parametrize("labelled", [True, False])
def test_a_flawed_evaluator_never_decides_and_its_flaw_is_found(flaw: str, labelled: bool) -> None:
    function, found_by = FLAWED[flaw]
    rollouts = sums()
    card = card_of(function, rollouts, labels(rollouts) if labelled else ())
    assert card.verdict in ("advises", "rejected")
    if labelled or found_by != "kappa":
        assert check(card, found_by).verdict in ("advises", "rejected")


def test_harmless_edits_must_not_lower_an_opinion() -> None:
    rollouts = sums(expected=False)

    def pedantic(output: Any, input: Any) -> bool:
        return right_sum(output, input) and output == output.strip() and "  " not in output

    card = card_of(pedantic, rollouts, labels(rollouts))
    assert check(card, "harmless edits").verdict == "rejected"
    assert card.verdict == "rejected"


def test_a_strict_comparison_may_treat_form_as_a_difference_but_not_the_order_of_keys() -> None:
    rollouts = [
        ended({"total": n, "name": NAMES[n % 10]}, {"total": n, "name": NAMES[n % 10]}, id=f"r{n}")
        for n in range(30)
    ]
    rollouts = [r.__class__(**{**_fields(r), "input": r.id}) for r in rollouts]
    assert card_of(exact_match(), rollouts).verdict == "decides"
    card = card_of(lambda output, expected: str(output) == str(expected), rollouts)
    assert check(card, "harmless edits").verdict == "rejected"
    assert "key order" in check(card, "harmless edits").detail


def _fields(rollout: Rollout) -> dict[str, Any]:
    return {name: getattr(rollout, name) for name in rollout.__struct_fields__}


def test_a_graded_comparison_decides_though_half_marks_are_wrong_to_people() -> None:
    rollouts = sums()

    def graded(output: Any, expected: Any) -> float:
        found = [int(w) for w in str(output).replace(",", "").split() if w.isdigit()]
        return 0.6 + 0.4 / (1 + abs(found[-1] - expected)) if found else 0.0

    card = card_of(graded, rollouts, labels(rollouts))
    assert (card.verdict, check(card, "kappa").value) == ("decides", 1.0), card.reasons


def test_a_comparison_is_not_blamed_for_an_agent_that_is_never_right() -> None:
    rollouts = [ended("unknown", NAMES[n % 10], id=f"r{n}", input=n) for n in range(40)]
    assert card_of(exact_match(), rollouts).verdict == "decides"


def test_expected_patterns_are_not_taken_for_outputs() -> None:
    rollouts = [ended("unknown", f"^{n}\\d+$", id=f"r{n}", input=n) for n in range(4)]
    card = card_of(regex(), rollouts, copies=2)
    assert card.verdict == "decides"
    assert check(card, "damage").verdict == "insufficient"


def test_an_evaluator_that_fails_on_every_output_is_rejected_after_a_few() -> None:
    asked = []

    def broken(output: Any, expected: Any) -> float:
        asked.append(output)
        raise ValueError("no")

    card = card_of(broken)
    assert card.verdict == "rejected"
    assert "outputs got no score" in card.reasons[0]
    assert len(asked) == 5


def test_without_any_expected_answer_a_comparison_is_not_known() -> None:
    card = card_of(numeric(), sums(expected=False))
    assert card.verdict == "insufficient"
    assert "No output can be scored" in card.reasons[0]


def test_labels_that_contradict_one_another_evenly_count_for_nothing() -> None:
    rollouts = sums(3)
    given = [Label(id=f"{n}{v}", rollout_id=rollouts[0].id, value=v) for n, v in enumerate((0, 1))]
    given.append(Label(id="c", rollout_id=rollouts[1].id, value=1.0))
    given.append(Label(id="d", rollout_id=rollouts[2].id, value=0.0, criterion="tone"))
    by_id = {case.rollout.id: case for case in make_cases(rollouts, given)}
    assert [by_id[r.id].labelled_right for r in rollouts] == [None, True, None]
    assert by_id[rollouts[0].id].labels == 2


def test_an_output_that_people_and_the_expected_answer_disagree_about_is_not_damaged() -> None:
    case = Case(rollout=ended("41", 42), label=1.0, labels=1)
    assert (case.right, case.contradicted) == (True, True)


def test_a_strict_comparison_is_not_blamed_for_an_agent_that_says_more() -> None:
    rollouts = [
        ended(f"It is the {NAMES[n % 10]}.", NAMES[n % 10], id=f"r{n}", input=n) for n in range(40)
    ]
    card = card_of(exact_match(), rollouts)
    assert card.verdict == "decides"
    assert check(card, "damage").value == 1.0


def test_the_same_seed_makes_the_same_card_but_for_the_speed() -> None:
    one, other = card_of(numeric(), clock=lambda: 0.0), card_of(numeric(), clock=lambda: 0.0)
    assert one == other
    assert (one.seconds, one.cost_usd) == (0.0, 0.0)
    assert one.id != card_of(numeric(), seed=1).id
    assert one.id != card_of(numeric(), vouched=True).id


def test_a_stored_card_is_found_again_on_the_same_data_only(sqlite_store: Store) -> None:
    cases = make_cases(sums())
    card = card_of(numeric())
    sqlite_store.report_cards.put(card)
    listed = msgspec.structs.replace(card, outputs=())
    assert cached_card(sqlite_store, numeric(), cases) == listed
    assert cached_card(sqlite_store, numeric(), cases[1:]) is None
    assert cached_card(sqlite_store, numeric(tolerance=1), cases) is None


def test_a_card_names_the_outputs_that_its_figures_were_computed_from(sqlite_store: Store) -> None:
    rollouts = sums()
    card = card_of(numeric(), rollouts, given=labels(rollouts, 50))
    sqlite_store.report_cards.put(card)
    kept = sqlite_store.report_cards.get(card.id)
    assert kept == card
    assert [each.outputs for each in sqlite_store.report_cards.list()] == [()]
    assert len(card.outputs) == card.rollouts == check(card, "unscored").n == 60
    right = [each.score for each in card.outputs if each.label == 1.0]
    wrong = [each.score for each in card.outputs if each.label == 0.0]
    assert len(right) + len(wrong) == card.labels == check(card, "kappa").n == 50
    passed = check(card, "true positive rate")
    assert (right.count(1.0) / len(right), len(right)) == (passed.value, passed.n)
    failed = check(card, "true negative rate")
    assert (wrong.count(0.0) / len(wrong), len(wrong)) == (failed.value, failed.n)


def test_a_limit_of_time_leaves_out_copies_and_not_outputs() -> None:
    ticks = iter(range(10_000))
    card = card_of(numeric(), clock=lambda: float(next(ticks)), limit_s=10)
    assert check(card, "unscored").value == 0.0
    assert check(card, "damage").verdict == "insufficient"


def test_evaluators_say_what_their_scores_rest_on() -> None:
    assert basis_of(exact_match()) == "comparison"
    assert basis_of(regex(pattern="a")) == "opinion"
    assert basis_of(json_schema(schema={})) == "opinion"
    assert basis_of(latency(within=1)) == "measurement"
    assert basis_of(FunctionEvaluator(lambda output: 1, name="x", basis="execution")) == "execution"


@pytest.mark.parametrize(
    ("count", "vouched", "best"),
    [
        (0, False, "advises"),
        (10, False, "insufficient"),
        (50, False, "decides"),
        (0, True, "decides"),
    ],
)
def test_what_an_opinion_may_do_at_best_is_known_before_it_is_asked(
    count: int, vouched: bool, best: str
) -> None:
    opinion = FunctionEvaluator(right_sum, name="x")
    assert may_decide(opinion, count, vouched=vouched) == best


def test_the_cut_of_graded_scores_is_chosen_on_other_labels() -> None:
    scores, truth = [0.9, 0.9, 0.95, 0.95] * 5, [False, False, True, True] * 5
    assert verdicts_of(scores, truth) == truth
    luck = random.Random(3)
    noise = [luck.random() for _ in range(200)]
    guesses = [luck.random() < 0.5 for _ in range(200)]
    agreed = sum(a == b for a, b in zip(verdicts_of(noise, guesses), guesses, strict=True))
    assert agreed < 120, "a cut chosen on the same labels would agree with more"


# A check turns down by a bound.


def judge_with_rates(rate: float, seed: int) -> tuple[Callable[..., Any], list[Rollout]]:
    """An opinion that is right on this share of right and of wrong outputs; 95 % are right."""
    luck = random.Random(seed)
    rollouts = [
        ended(f"answer {n} is {'right' if luck.random() < 0.95 else 'wrong'}", id=f"r{n}", input=n)
        for n in range(200)
    ]
    errs = {r.input: luck.random() >= rate for r in rollouts}

    def opinion(output: Any, input: Any) -> bool:
        return str(output).endswith("right") is not errs[input]

    return opinion, rollouts


@pytest.mark.parametrize("count", [50, 100, 200])
def test_a_judge_with_both_rates_at_95_percent_is_not_rejected_for_a_constant(count: int) -> None:
    rejected = 0
    for seed in range(10):
        opinion, rollouts = judge_with_rates(0.95, seed)
        given = [
            Label(id=r.id, rollout_id=r.id, value=float(r.output.endswith("right")))
            for r in rollouts[:count]
        ]
        card = card_of(opinion, rollouts, given, copies=1)
        names = {each.name: each.verdict for each in card.checks}
        assert "beats a constant" not in names
        rejected += "rejected" in {names["kappa"], names["true positive rate"]}
    assert rejected == 0


def test_few_copies_are_not_enough_to_say() -> None:
    def misses_most(output: Any, expected: Any) -> bool:
        return numeric()(output, expected).value == 1.0 or str(output)[-5] in "13579"

    few = check(card_of(misses_most, sums(8)), "damage: numbers")
    assert few.low is not None
    assert few.high is not None
    assert few.low < DAMAGE_KIND < few.high
    assert few.verdict == "insufficient"
    assert "too few to conclude" in few.detail


def test_few_copies_never_block_a_comparison_with_a_benchmark_of_its_own() -> None:
    def unsure(benchmarked: bool) -> ReportCard:
        def blind_to_some(output: Any, expected: Any) -> bool:
            return isinstance(output, int) and (output == expected or output > 550)

        made = FunctionEvaluator(
            blind_to_some, name="x", trusted=True, benchmarked=benchmarked, remedy="Set more."
        )
        rollouts = [ended(100 * n + n, 100 * n + n, id=f"r{n}", input=n) for n in range(3, 9)]
        return card_of(made, rollouts)

    own, built_in = unsure(False), unsure(True)
    assert own.verdict == "insufficient"
    assert own.reasons[-1] == "Set more."
    assert built_in.verdict == "decides"
    assert "Set more." not in built_in.reasons


def test_order_counts_only_where_the_expected_answer_says_that_it_matters() -> None:
    def of_sets(output: Any, expected: Any) -> bool:
        return sorted(output["tags"]) == sorted(expected["tags"])

    rollouts = [
        ended({"tags": tags}, {"tags": tags}, id=f"r{n}", input=n)
        for n in range(12)
        if (tags := [f"a{n}", f"b{n}", f"c{n}"])
    ]
    card = card_of(of_sets, rollouts)
    assert card.verdict == "decides", card.reasons
    assert "damage: reordered" not in {each.name for each in card.checks}


def test_outputs_that_nobody_can_use_are_tried() -> None:
    def parses(output: Any, expected: Any) -> bool:
        return bool(int(str(output).split()[-2]) == expected)

    card = card_of(parses)
    assert check(card, "unusable outputs").value == 0.0
    assert check(card, "unusable outputs").n == 12
    generous = card_of(lambda output, expected: str(output) != "0")
    assert check(generous, "unusable outputs").verdict == "rejected"


def test_an_evaluator_is_measured_with_expected_answers_before_there_is_an_output() -> None:
    tasks = [Task(id=f"t{n}", input=n, expected=f"{NAMES[n % 10]} {n}") for n in range(30)]
    cases = make_cases([], (), tasks)
    options: dict[str, Any] = {"spans_of": lambda _: []}
    card = asyncio.run(make_card(exact_match(), cases, **options))
    assert (card.verdict, card.rollouts, card.outputs) == ("decides", 0, ())
    assert check(card, "damage").n > 50

    def of_json(output: Any, expected: Any) -> bool:
        return bool(json.loads(output)["answer"] == expected)  # no expected answer is an output

    made = FunctionEvaluator(of_json, name="json", trusted=True)
    unknown = asyncio.run(make_card(made, cases, **options))
    assert unknown.verdict == "insufficient"
    assert "No output can be scored" in unknown.reasons[0]
