"""A model's choice among the best names: used only when STDLIB_HELPER_MODEL names a model."""

from __future__ import annotations

import os
import re
import warnings

import ratchet

from .cache import documents

OPTIONS = 5
TIMEOUT_S = 8.0

CHOOSE = ratchet.prompt(
    "choose",
    """Which of these answers the question about the Python standard library?

Question: {question}

{options}

Reply with the name only.""",
)


def model_name() -> str | None:
    """The model to ask, or None when nobody configured one."""
    return os.environ.get("STDLIB_HELPER_MODEL") or None


def choose(question: str, names: list[str], model: str) -> list[str]:
    """Puts the name that the model chooses first; without a usable reply the order stays."""
    options = names[:OPTIONS]
    with ratchet.trace("choose") as step:
        try:
            reply = _ask(question, options, model)
        except Exception as error:
            # The order of retrieval is an answer too, but that the model failed must be seen.
            problem = f"{type(error).__name__}: {error}"
            step.set("stdlib_helper.model_error", problem)
            warnings.warn(
                f"The model {model!r} could not be asked ({problem}); "
                "the answer is the order of retrieval.",
                RuntimeWarning,
                stacklevel=2,
            )
            return names
        chosen = named_option(reply, options)
        step.set("stdlib_helper.chosen", chosen or "")
    return names if chosen is None else [chosen, *(name for name in names if name != chosen)]


def named_option(reply: str, options: list[str]) -> str | None:
    """The option that a reply names first, or None when it names none."""
    found = []
    for option in options:
        # `json.load` must not be found inside `json.loads` or `simplejson.load`.
        match = re.search(rf"(?<![\w.]){re.escape(option)}(?!\w|\.\w)", reply)
        if match:
            found.append((match.start(), option))
    return min(found)[1] if found else None


def _ask(question: str, options: list[str], model: str) -> str:
    # Imported here, so that an agent without a model does not need the package.
    from openai import OpenAI

    summaries = {document.name: document.summary for document in documents()}
    listed = "\n".join(f"- {name}: {summaries[name]}" for name in options)
    completion = OpenAI(timeout=TIMEOUT_S, max_retries=1).chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": CHOOSE.format(question=question, options=listed)}],
    )
    return completion.choices[0].message.content or ""
