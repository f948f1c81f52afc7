"""The numbers that the search is set by, in one table."""

from __future__ import annotations

FIRST = 4
"""Train tasks of a rewrite's first part; later parts double."""

SHOWN = 10
"""Low rollouts shown in one request, spread over the kinds of failure."""

START_SHARE = 0.2
"""Share of the rollouts that the source may run on train before the first request."""

VAL_SHARE = 0.2
"""Share of the rollouts reserved for the comparison on val."""

WEAK = 5
"""Coach calls in a row that bring nothing, after which the coach is not asked again."""

PROVEN = 3
"""Factor on that number once a rewrite of this coach has gained."""

GROWTH_SHARE = 0.25
"""Share of the rollouts left that a new leader may spend on train tasks that nobody has run."""

FINALISTS = ((80, 1), (250, 2))
"""Number of finalists below each budget of rollouts; three from the last one on."""

UNLIMITED = 1_000
"""Planned rollouts where their number is not limited."""

IDLE_DRAFTS = 200
"""Mutations in a row without a new candidate that runs, after which mutation ends."""

GENERATIONS = 8
"""Batches of mutants that a budget should cover, whatever the number of slots."""

TESTS_AT_ONCE = 2
"""Candidates that the repository's own tests run on at once."""

REQUEST_ROOM = 9_000
"""Characters of all low rollouts in one request."""

TASKS_ROOM = 3_000
"""Characters of the list of all train tasks in one request."""

LEAST_TASK = 80
"""Characters of a task in that list, at least: with more tasks, the rest is left out."""

HISTORY_ROOM = 4_000
"""Characters of the earlier edits in one request."""

VALUES_ROOM = 6_000
"""Characters of the values of placeholders that are the same in all rollouts."""
