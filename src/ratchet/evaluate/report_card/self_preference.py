"""Whether a judge prefers the outputs of its own model."""

from __future__ import annotations

import math
import statistics

from ratchet.evaluate.report_card import thresholds as limits
from ratchet.evaluate.report_card.checks import Measured, Z, small_shift
from ratchet.observe.dialects import names
from ratchet.types import CardCheck
from ratchet.worker.evaluator import Evaluator, SpansOf

MIN_LABELLED = 20
"""Minimum number of labelled outputs on each side to conclude anything."""


def self_preference(evaluator: Evaluator, measured: Measured, spans_of: SpansOf) -> list[CardCheck]:
    """Mean of score minus label for the judge's own model's outputs, minus the same for others.

    The model of an output is that of the model calls among its steps. Needs labelled outputs of a
    model that the judge asks, and of others.
    """
    models = {_plain(name) for name in getattr(evaluator, "models", ())}
    if not models:
        return []
    own: list[float] = []
    foreign: list[float] = []
    for probe, value in zip(measured.probes, measured.values, strict=True):
        label = measured.cases[probe.case].label if probe.kind == "real" else None
        if label is None or value is None:
            continue
        makers = {
            _plain(span.attributes.get(name))
            for span in spans_of(probe.rollout.id)
            for name in (names.REQUEST_MODEL, names.RESPONSE_MODEL)
        }
        (own if models & makers else foreign).append(value - label)
    if min(len(own), len(foreign)) < MIN_LABELLED:
        return []
    shift = math.fsum(own) / len(own) - math.fsum(foreign) / len(foreign)
    half = Z * math.sqrt(sum(statistics.variance(side) / len(side) for side in (own, foreign)))
    return [
        CardCheck(
            name="self-preference",
            value=shift,
            low=shift - half,
            high=shift + half,
            n=len(own) + len(foreign),
            verdict=small_shift(
                shift, shift - half, limits.SELF_PREFERENCE, limits.SELF_PREFERENCE_ADVISES
            ),
            detail=f"It scores its own model's outputs {shift:+.3f} above the labels, compared with"
            " those of others.",
        )
    ]


def _plain(name: object) -> str:
    """A model's name without the provider in front of it."""
    return str(name or "").rpartition("/")[2]
