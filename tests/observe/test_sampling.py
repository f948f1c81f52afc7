"""Sampling: a share of all traces, and every trace with an error or bad feedback."""

from __future__ import annotations

import random

from ratchet.observe.sampling import HOLD_S, SampledSpan, Sampling

NOT_DRAWN = 2**64 - 1
"""A trace that no share below 1 draws."""


def span(name: str, trace: int = NOT_DRAWN, *, error: bool = False, talk: str = "") -> SampledSpan:
    return SampledSpan(trace, error, talk, 100, name)


def test_it_draws_as_opentelemetry_does() -> None:
    from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

    luck = random.Random(2)
    theirs = TraceIdRatioBased(0.3)
    for _ in range(500):
        trace = luck.getrandbits(128)
        drawn = theirs.should_sample(None, trace, "x").decision is Decision.RECORD_AND_SAMPLE
        assert bool(Sampling(0.3).pick([span("x", trace)], 0.0)) is drawn


def test_a_quiet_trace_is_let_go_after_a_while() -> None:
    sampling = Sampling(0.0)
    sampling.pick([span("a")], 0.0)
    sampling.pick([span("b")], HOLD_S - 1)
    assert sampling.held == 2, "it is not quiet: something came just now"
    sampling.pick([], 2 * HOLD_S)
    assert (sampling.held, sampling.left_out) == (0, 2)
    assert sampling.keep(trace_id=NOT_DRAWN) == []


def test_what_is_held_is_bounded_and_the_quietest_goes_first() -> None:
    sampling = Sampling(0.0, max_held=10)
    traces = [(number << 64) + 2**64 - 1 for number in range(15)]
    for number, trace in enumerate(traces):
        sampling.pick([span(str(number), trace)], float(number))
    assert (sampling.held, sampling.left_out) == (10, 5)
    assert sampling.keep(trace_id=traces[0]) == []
    assert sampling.keep(trace_id=traces[14]) == ["14"]


def test_what_is_held_is_bounded_in_size() -> None:
    sampling = Sampling(0.0, max_weight=1_000)
    for number in range(50):
        sampling.pick([span(str(number), (number << 64) + 2**64 - 1)], 0.0)
    assert sampling.held == 10
