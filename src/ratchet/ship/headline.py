"""A change in one line: its gain, or its saving at the same quality."""

from __future__ import annotations

from ratchet.types import Candidate, Decision, GuardrailResult, Model
from ratchet.types.interval_text import interval_ends


def headline(names: str, metric: str, decision: Decision) -> str:
    """The title of a change: what it changes, and the proved gain.

    Args:
        names: The changed resources, as they are shown.
        metric: The decision's metric, as it is shown.
        decision: The decision.
    """
    gain = decision.candidate - decision.baseline
    if decision.verdict != "promote":
        return f"Not proved: change {names}: {metric} {gain:+.4f}"
    if decision.margin:
        return f"Change {names}: {saved(decision)}"
    return f"Improve {names}: {metric} {gain:+.4f}"


def change_label(name: str, baseline: Candidate, candidate: Candidate) -> str:
    """A changed resource by name; for a model, also the old and new model."""
    old, new = baseline.resources.get(name), candidate.resources.get(name)
    if isinstance(old, Model) and isinstance(new, Model) and old.model != new.model:
        return f"{name} ({old.model} → {new.model})"
    return name


def saved(decision: Decision) -> str:
    """Quality, cost and latency against the baseline: "same quality (…), 62 % cheaper".

    Args:
        decision: Of an experiment with a margin, which it proved.
    """
    gain = decision.candidate - decision.baseline
    low, _ = interval_ends(*decision.interval)
    by_metric = {guardrail.metric: guardrail for guardrail in decision.guardrails}
    parts = [f"same quality ({gain:+.3f}, at worst {low})"]
    if cost := _ratio(by_metric.get("cost")):
        percent = round(100 * abs(1 - cost))
        dearer = "cheaper" if cost < 1 else "dearer"
        parts.append(f"{percent} % {dearer}" if percent else "same cost")
    if latency := _ratio(by_metric.get("latency")):
        factor = max(latency, 1 / latency)
        faster = "faster" if latency < 1 else "slower"
        parts.append(f"{factor:.1f} × {faster}" if factor >= 1.05 else "as fast")
    return ", ".join(parts)


def _ratio(guardrail: GuardrailResult | None) -> float | None:
    """The candidate's mean relative to the baseline's, if both are known and not zero."""
    if guardrail is None or not guardrail.baseline or not guardrail.candidate:
        return None
    return guardrail.candidate / guardrail.baseline
