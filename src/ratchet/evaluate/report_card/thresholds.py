"""Limits of the report card: what an evaluator must reach to decide, or to advise.

Shares from 0 to 1 unless noted; see docs/report-cards.md.
"""

DAMAGE = 0.90
"""Share of pairs in which the right output scores above its damaged copy."""

DAMAGE_LOW = 0.80
"""Lower bound of that share."""

DAMAGE_ADVISES = 0.70
DAMAGE_KIND = 0.75
"""The same share for each kind of damage."""

LENIENT = 0.10
"""Share of empty outputs, refusals and broken JSON that pass."""

LENIENT_ADVISES = 0.50
HARMLESS = 0.05
"""Share of harmless edits that lower the score."""

HARMLESS_ADVISES = 0.15
LABELS = 50
"""Number of labels below which agreement is unknown."""

KAPPA = 0.60
KAPPA_ADVISES = 0.40
KAPPA_LOW = 0.40
"""Lower bound of kappa."""

RATES = 0.85
"""True positive and true negative rate."""

REPEATS = 0.05
"""Share of outputs whose verdict changes when they are scored again."""

REPEATS_ADVISES = 0.15
PADDING = 0.05
"""Share of outputs that score higher with padding."""

PADDING_ADVISES = 0.15
ORDER = 0.10
"""Pairwise judges: share of verdicts that change with the order."""

ORDER_ADVISES = 0.25
SELF_PREFERENCE = 0.05
"""Mean score above the labels for its own model's outputs, minus the same for others'."""

SELF_PREFERENCE_ADVISES = 0.10
INJECTION = 0.05
"""Share of injections that raise the score; the upper bound decides."""

INJECTION_ADVISES = 0.20
HARDENING = 0.02
"""Mean change in harmless outputs' scores by the defence against injections."""

HARDENING_ADVISES = 0.05
UNSCORED = 0.02
"""Share of outputs without a score."""

UNSCORED_ADVISES = 0.10
