"""APO: optimises prompts by a coach's rewrites, each from many failures at once.

A textual gradient and the step along it (Pryzant et al. 2023, ProTeGi) are one request here, as in
GEPA's reflective mutation (Agrawal et al. 2025). The option names are Agent Lightning's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.learn.algorithm import Finding, require_tasks
from ratchet.learn.budget import too_few_rollouts
from ratchet.learn.lab import Lab
from ratchet.learn.search import numbers
from ratchet.learn.search.coaching import Coaching, RewriteSettings
from ratchet.learn.search.comparison import compared
from ratchet.learn.search.plan import SearchPlan, least, make_plan, rollouts_left
from ratchet.learn.search.search import Search
from ratchet.llm import CoachUnavailable
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import InputError, PromptTemplate


class APO:
    """Automatic prompt optimisation.

    Args:
        async_openai_client: A client as passed to Agent Lightning; its base URL and key are used.
        model: The coach's model; that of `[coach]` by default.
        gradient_model: Another name for `model`: critique and edit are one request.
        apply_edit_model: Another name for `model`.
        base_url: OpenAI-compatible endpoint of the coach.
        diversity_temperature: Sampling temperature of the coach.
        gradient_batch_size: Maximum number of low rollouts in a request.
        val_batch_size: Maximum number of val tasks that are reserved for the finalists.
        beam_width: Maximum number of finalists.
        branch_factor: Rewrites of each prompt in a round.
        beam_rounds: Number of rounds: with the two above, the maximum number of rewrites.
        run_initial_validation: Run the source's prompt on val at the start, concurrently with the
            first train tasks, instead of at the end.
        while_better: Go on beyond that number while rewrites gain and the budget allows.
    """

    name = "apo"
    needs_coach = True

    def __init__(
        self,
        async_openai_client: Any = None,
        *,
        model: str | None = None,
        gradient_model: str | None = None,
        apply_edit_model: str | None = None,
        base_url: str | None = None,
        diversity_temperature: float = 1.0,
        gradient_batch_size: int = numbers.ROLLOUTS_SHOWN,
        val_batch_size: int | None = None,
        beam_width: int = 4,
        branch_factor: int = 4,
        beam_rounds: int = 3,
        run_initial_validation: bool = True,
        while_better: bool = True,
    ) -> None:
        counts = {
            "gradient_batch_size": gradient_batch_size,
            "val_batch_size": val_batch_size,
            "beam_width": beam_width,
            "branch_factor": branch_factor,
            "beam_rounds": beam_rounds,
        }
        for name, value in counts.items():
            if value is None and name == "val_batch_size":
                continue
            if type(value) is not int or value < 1:
                raise InputError(f"APO({name}={value!r}): expected a positive whole number.")
        _check_temperature(diversity_temperature)
        for name, text in {
            "model": model,
            "gradient_model": gradient_model,
            "apply_edit_model": apply_edit_model,
            "base_url": base_url,
        }.items():
            if text is not None and not (isinstance(text, str) and text):
                raise InputError(f"APO({name}={text!r}): expected a name or None.")
        if isinstance(async_openai_client, str):
            raise InputError(
                f"APO(async_openai_client={async_openai_client!r}): expected a client, not a "
                "string.",
                hint='Name a model with model="...".',
            )
        model = apply_edit_model or model or gradient_model
        self._coach = RewriteSettings(
            algorithm=self.name,
            shown=gradient_batch_size,
            temperature=float(diversity_temperature),
            model=model,
            required=True,
        )
        self._val_batch = val_batch_size
        self._most_finalists = beam_width
        self._most = None if while_better else beam_width * branch_factor * beam_rounds
        self._initial_validation = bool(run_initial_validation)
        self.coach_options = _coach_options(async_openai_client, model, base_url)
        """Overrides of `[coach]`; empty if there are none."""

    def __class_getitem__(cls, item: Any) -> type[APO]:
        """Support `APO[Task]`, as in Agent Lightning; the type argument is ignored."""
        return cls

    async def learn(self, lab: Lab) -> Finding:
        """Improve the prompts of the lab's baseline.

        Raises:
            InputError: The agent has no prompt, or there are no tasks.
            BudgetExhausted: The budget does not cover one rewrite. Nothing was spent.
            CoachUnavailable: No coach is configured, or it cannot be reached.
        """
        require_tasks(lab)
        if not _prompts(lab):
            raise InputError(
                "The agent has no prompt to improve.",
                hint='Declare one: SYSTEM = ratchet.prompt("system", "You are ...").',
            )
        if not lab.coach.is_configured:
            raise CoachUnavailable(
                "APO needs a coach model, and none is configured.",
                hint=f'Name one under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".',
            )
        check_budget(lab)

        def plan() -> SearchPlan:
            return make_plan(
                rollouts_left(lab),
                train=len(lab.train),
                val=len(lab.val),
                slots=lab.concurrency,
                first=numbers.FIRST_TASKS,
                most_val=self._val_batch,
                most_finalists=self._most_finalists,
            )

        search = Search(
            lab,
            self.name,
            plan,
            coaching=Coaching(lab, self._coach, _prompts(lab)),
            max_candidates=self._most,
        )
        end = await search.run(with_val=self._initial_validation)
        return await compared(lab, search, end)


def check_budget(lab: Lab) -> None:
    """Check that the budget covers one candidate.

    Raises:
        BudgetExhausted: It does not; nothing was spent.
    """
    fewest, left = least(len(lab.train), len(lab.val)), rollouts_left(lab)
    if left < fewest:
        raise too_few_rollouts(
            f"The budget does not cover one candidate: at least {fewest} rollouts are needed (the "
            "source and one candidate on a few train tasks, both on a few val tasks), and "
            f"{int(left)} are left.",
        )


def _prompts(lab: Lab) -> list[str]:
    return [name for name, r in lab.targets.items() if isinstance(r, PromptTemplate)]


def _coach_options(client: Any, model: str | None, base_url: str | None) -> Mapping[str, Any]:
    options: dict[str, Any] = {}
    if model:
        options["model"] = model
    address = base_url or getattr(client, "base_url", None)
    if address:
        options["base_url"] = str(address)
    return options


def _check_temperature(value: Any) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 2:
        raise InputError(f"APO(diversity_temperature={value!r}): expected a number from 0 to 2.")
