"""Evidence for a coach: which rollouts and earlier edits it is shown, and as what text."""

from ratchet.learn.evidence.history import (
    TriedChange,
    changes_text,
    history_text,
    parameters_text,
    tried_change,
)
from ratchet.learn.evidence.rollout_text import (
    MAX_FIELD,
    Example,
    example_of,
    example_text,
    examples_text,
    transcript,
)
from ratchet.learn.evidence.selection import EvidenceSelector, kinds_of_failure
from ratchet.observe.step_text import cut, text_of

__all__ = [
    "MAX_FIELD",
    "EvidenceSelector",
    "Example",
    "TriedChange",
    "changes_text",
    "cut",
    "example_of",
    "example_text",
    "examples_text",
    "history_text",
    "kinds_of_failure",
    "parameters_text",
    "text_of",
    "transcript",
    "tried_change",
]
