"""Several nulls at once: which of them their e-values reject."""

from __future__ import annotations

from collections.abc import Mapping


def e_bh(e_values: Mapping[str, float], alpha: float) -> frozenset[str]:
    """Reject the k nulls with the largest e-values, for the largest k whose k-th is K / (k alpha).

    The expected share of true nulls among the rejected ones is at most alpha, however the e-values
    depend on one another. Source: Wang and Ramdas, "False discovery rate control with e-values",
    JRSS B 2022.

    Args:
        e_values: E-value by null.
        alpha: In (0, 1).
    """
    names = sorted(e_values, key=lambda name: (-e_values[name], name))
    for k in range(len(names), 0, -1):
        if e_values[names[k - 1]] * k * alpha >= len(names):
            return frozenset(names[:k])
    return frozenset()
