"""What a first improvement is likely to cost, with all that is assumed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ratchet.llm.prices import SELLERS, Usage, dollars
from ratchet.types.cost import dollars_text
from ratchet.wire.recommending.model_names import ModelName

BASELINE, SEARCH = 50, 400
"""Rollouts of a baseline, and of a usual `ratchet improve`."""
INPUT, OUTPUT = 500, 300
"""Tokens that a call is assumed to read besides its prompt, and to write."""
TOKENS_PER_WORD = 4 / 3
PROVIDERS = ("groq", "together", "fireworks", "deepseek", "openrouter", "mistral", "cohere")
SHOWN = 4
"""Models that are shown."""


def cost_lines(
    models: Sequence[ModelName], calls: int, words: int, packages: Iterable[str] = ()
) -> tuple[str, ...]:
    """The estimate in sentences.

    Args:
        models: Models that the code names.
        calls: Model calls of one rollout, at least.
        words: Words of a prompt, on average.
        packages: Packages that the project names; they show which provider sells a model.
    """
    sellers = [one for one in PROVIDERS if any(one in name.lower() for name in packages)]
    tokens = round(words * TOKENS_PER_WORD) + INPUT
    said = f"{calls} model call{'' if calls == 1 else 's'}"
    lines = [
        f"A rollout makes at least {said}, more where it loops or uses tools.",
        f"A baseline takes about {BASELINE} rollouts; a usual ratchet improve about {SEARCH}.",
    ]
    prices = {one: estimate(one.name, calls, tokens, sellers) for one in models}
    known = {one: usd for one, usd in prices.items() if usd is not None}
    if known:
        shown = ", ".join(
            f"{dollars_text(usd)} with {one.name} ({one.place})"
            for one, usd in sorted(known.items(), key=lambda each: each[1])[:SHOWN]
        )
        lines.append(f"Both together are estimated at {shown}.")
        lines.append(
            f"Assumed: {BASELINE + SEARCH} rollouts of {said}, each with {tokens:,} input and"
            f" {OUTPUT} output tokens, at published prices; the coach comes on top."
        )
    unknown = [f"{one.name} ({one.place})" for one, usd in prices.items() if usd is None]
    if unknown:
        more = f", and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        lines.append(f"Not known: the price of {', '.join(unknown[:SHOWN])}{more}.")
    if not models:
        lines.append("Not known: the price in dollars, since the code names no model.")
    lines.append(
        "The true price is measured from the first rollout on and can be limited:"
        " [improve.budget] dollars."
    )
    return tuple(lines)


def estimate(
    model: str, calls: int, input_tokens: int, sellers: Sequence[str] = ()
) -> float | None:
    """Dollars of a baseline and an improvement; None when the model has no published price.

    Args:
        model: Its name, with or without a provider: `gpt-4o`, `groq/llama-…`, `openai:gpt-4o`.
        calls: Model calls of one rollout.
        input_tokens: Of one call.
        sellers: Providers that may sell it, if its name does not say.
    """
    number = (BASELINE + SEARCH) * calls
    usage = Usage(input_tokens=input_tokens, output_tokens=OUTPUT)
    for provider, name in [*_readings(model), *((one, model) for one in sellers)]:
        usd = dollars(provider, name, usage)
        if usd is not None:
            return usd * number
    return None


def _readings(model: str) -> list[tuple[str, str]]:
    """How a name may be split into a provider and a model; as it stands comes first."""
    maker, sign, rest = model.partition("/") if "/" in model else model.partition(":")
    found = [("", model)]
    if sign and re.fullmatch(r"[A-Za-z_-]+", maker):
        provider = maker.lower().replace("_", "-")
        found += [(SELLERS.get(provider, provider), rest), ("", rest)]
    return found
