"""Sizes: a budget is divided so that it is never exceeded; small ones still reach for a round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ratchet.learn.apo.budget import SizeOptions, least, sizes
from ratchet.learn.apo.coaching import PROMPTS

COUNTS = st.integers(1, 400)


@given(st.integers(0, 5000), COUNTS, COUNTS, st.integers(1, 256))
def test_what_is_planned_fits_the_budget(more: int, train: int, val: int, slots: int) -> None:
    budget = least(train, val) + more
    plan = sizes(SizeOptions(), rollouts=budget, train=train, val=val, concurrency=slots)
    assert plan.panel + plan.rung + plan.val * 2 <= budget
    assert plan.panel + plan.val + plan.reserve <= budget
    assert 1 <= plan.rung <= plan.panel <= plan.panel_most <= train
    assert plan.panel <= plan.most
    assert 1 <= plan.val <= min(val, 16)
    assert 1 <= plan.width <= 16
    assert 1 <= plan.beam <= 4
    assert 1 <= plan.finalists <= 4
    assert plan.round >= 1


def test_small_budgets_learn_one_after_another_and_large_ones_side_by_side() -> None:
    plans = [
        sizes(SizeOptions(), rollouts=n, train=100, val=40, concurrency=32)
        for n in (30, 200, 800, 3000)
    ]
    assert plans[0].width == 1
    assert [p.width for p in plans] == sorted(p.width for p in plans)
    assert plans[-1].width == 16
    assert [p.beam for p in plans] == [1, 2, 4, 4]
    assert [p.panel_most for p in plans] == sorted(p.panel_most for p in plans)


def test_no_more_is_under_way_than_can_run() -> None:
    plan = sizes(SizeOptions(), rollouts=3000, train=100, val=40, concurrency=2)
    assert plan.width == 1


def test_without_a_limit_the_options_decide() -> None:
    wanted = SizeOptions(beam_width=2, branch_factor=3, val_batch_size=5)
    plan = sizes(wanted, rollouts=None, train=100, val=40, concurrency=32)
    assert plan.val == 5
    assert plan.beam == 2
    assert plan.width <= 6
    assert plan.round <= 6


def test_the_coachs_prompts_have_one_version_and_take_anything_as_it_is() -> None:
    assert len(PROMPTS.version) == 8
    text = PROMPTS.fill("critique", role="$prompt", prompt="{a} $b ${c}", rollouts="```",
                        settings="", history="")  # fmt: skip
    assert "$prompt\n" in text
    assert "{a} $b ${c}" in text
