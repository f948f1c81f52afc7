"""The constants of the search, in one table.

Where a measurement is named, it is `benchmarks/prompt_search.py --only apo --no-peer --no-wall`
with 300 rollouts and the simulated coach, on two seeds, or one where it says so. The first prompt
scored 0.51 there. The others are bounds that no measurement has set.
"""

from __future__ import annotations

FIRST_TASKS = 4
"""Number of train tasks that a rewrite runs first; the total then doubles each time."""

DRAFT_TASKS = 1
"""Train tasks of the first part of a change of code: most of those fail at once. With 2 instead,
mutants reached 0.59 on `pack` and 0.46 on `route` (benchmarks/code_search.py --quick, five seeds);
with 1, 0.66 and 0.60."""

ROLLOUTS_SHOWN = 10
"""Low rollouts shown in one request, spread over the kinds of failure."""

START_SHARE = 0.1
"""Share of the rollouts that the source may run on train before the first request. With 0.2,
0.85 was reached (one seed); with 0.1, 0.95 and 0.96."""

VAL_SHARE = 0.2
"""Share of the rollouts reserved for the comparison on val."""

PLAIN_AFTER = 2
"""First answers without a candidate after which requests for prompts are plain."""

PLAIN_ROLLOUTS_SHOWN, PLAIN_FIELD_ROOM = 4, 300
"""Low rollouts in a plain request, and characters of an input. Six of six answers of a model of
1.5 B to them held a prompt (HotpotQA, Formula, SQL); a run with whole requests ended after three
answers without one (HotpotQA)."""

MAX_WEAK_CALLS = 5
"""Coach calls in a row without a result after which the coach is no longer asked."""

MAX_DECLINES = 2
"""The coach is no longer asked after this many answers in a row that no change would help."""

PROVEN_FACTOR = 3
"""Factor on that number once one of this coach's rewrites has gained."""

FINALISTS_BY_BUDGET = ((160, 1), (250, 2))
"""Number of finalists below each budget of rollouts; three above the last."""

UNLIMITED_ROLLOUTS = 1_000
"""Number of rollouts to plan with if the budget does not limit them."""

MAX_IDLE_DRAFTS = 200
"""Mutations in a row without a new candidate that runs, after which mutation ends."""

GENERATIONS = 8
"""Batches of mutants that a budget should cover, whatever the number of slots."""

TESTS_AT_ONCE = 2
"""Candidates that the repository's own tests run on at the same time."""

STEPS_ROOM = 24_000
"""Characters of the agent's steps in a request: the first rollouts use them up, the rest get none.
With 300 for each rollout instead, which cuts what tools return, 0.77 and 0.89 were reached; with
whole steps, 0.95 and 0.96."""

FIELD_ROOM = 800
"""Characters of an input, an answer, or a remark about it."""

TASKS_ROOM = 2_200
"""Characters of the list of other train tasks in one request; tasks beyond them are left out."""

TASK_ROOM = 240
"""Characters of a task in that list."""

HISTORY_ROOM = 4_000
"""Characters of the earlier edits in one request."""

VALUES_ROOM = 6_000
"""Characters of the values of placeholders that are the same in all rollouts."""
