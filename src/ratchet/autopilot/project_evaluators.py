"""The evaluators of a project, and which of them is the objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.autopilot.config import Config
from ratchet.autopilot.learning_sections import CoachSection
from ratchet.autopilot.project import Project
from ratchet.evaluate import BUILT_IN, Evaluator, FunctionEvaluator, make_evaluator
from ratchet.evaluate.weighted import NAME as WEIGHTED
from ratchet.evaluate.weighted import WeightedEvaluator
from ratchet.run.program import AnyAgent
from ratchet.types import ConfigError
from ratchet.worker.evaluator import OnError

JUDGE_LIMITS = ("timeout_s", "total_s", "retries", "concurrency")
"""Keys of [coach] that also apply to judges."""


def project_evaluator(
    project: Project,
    use: str,
    options: Mapping[str, Any],
    *,
    name: str | None,
    on_error: OnError | None = None,
) -> Evaluator:
    """An evaluator with the project's files, coach and redaction; see `make_evaluator`."""
    own = dict(options)
    if use in BUILT_IN and isinstance(own.get("file"), str):
        own["file"] = str(project.root / own["file"])
    if use == "judge":
        own = _judge_options(project.config.coach, own)
    if use in ("judge", "preference", "sql"):
        own["folder"] = str(project.root)
    host = project.agent_host if ":" in use else None
    evaluator = make_evaluator(use, own, name=name, on_error=on_error, host=host)
    if use == "judge":
        from ratchet.evaluate.judges import JudgeEvaluator

        assert isinstance(evaluator, JudgeEvaluator)
        evaluator.judge.models.redactor = project.redactor()
    return evaluator


def project_evaluators(project: Project) -> tuple[Evaluator, ...]:
    """The evaluators of a project, including those that guardrails need.

    Raises:
        AgentError: An evaluator is the user's own, and the agent does not import.
        ConfigError: One cannot be created, or two share a name.
    """
    sections = project.config.evaluators
    if any(":" in section.use for section in sections):
        project.load_agent()  # the user's evaluators are found from its folders
    made: dict[int, Evaluator] = {
        number: project_evaluator(
            project, section.use, section.options, name=section.name, on_error=section.on_error
        )
        for number, section in enumerate(sections)
        if section.use != WEIGHTED
    }
    parts = {e.name: e for e in made.values() if isinstance(e, FunctionEvaluator)}
    for number, section in enumerate(sections):
        if section.use == WEIGHTED:
            weights = section.options.get("weights", {})
            made[number] = WeightedEvaluator(parts, weights, section.name or WEIGHTED)
    evaluators = [made[number] for number in range(len(sections))]
    names = [evaluator.name for evaluator in evaluators]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"Two evaluators are named {name!r}.",
                hint='Rename one: name = "…" under its [[evaluators]].',
            )
    needed = ["latency", "cost"]
    if project.config.objective.minimise == "tokens":
        needed.append("tokens")
    evaluators.extend(make_evaluator(name) for name in needed if name not in names)
    return tuple(evaluators)


def objective_of(config: Config, evaluators: Sequence[Evaluator], agent: AnyAgent) -> str:
    """Name of the evaluator whose score is improved.

    Raises:
        ConfigError: There is none, it is not among the evaluators, or its values are not scores
            in [0, 1].
    """
    if not config.evaluators and agent.kind != "rollout":
        raise ConfigError(
            "ratchet.toml names no evaluator, so there is no score to improve.",
            hint='For example, add:\n\n[[evaluators]]\nuse = "exact_match"\n\n'
            "For others: ratchet evaluators list --built-in",
        )
    selected = config.objective.score
    by_name = {evaluator.name: evaluator for evaluator in evaluators}
    if selected is None:
        own = [section.use for section in config.evaluators]
        selected = evaluators[0].name if own else "reward"
    if selected == "reward" and selected not in by_name:
        return selected
    if selected not in by_name:
        raise ConfigError(
            f"objective.evaluator = {selected!r} names no evaluator; there are {[*by_name]}."
        )
    if by_name[selected].unit:
        raise ConfigError(
            f"The objective {selected!r} is measured in {by_name[selected].unit}; an objective "
            "must be a score in [0, 1].",
            hint="Give it a limit (within = …), or make it a guardrail.",
        )
    return selected


def _judge_options(coach: CoachSection, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a judge, with the coach's model and limits as defaults."""
    own = dict(options)
    if not own.keys() & {"model", "models"}:
        shared = coach.model_dump(include={"model", "base_url", "key_env"}, exclude_none=True)
        shared |= coach.model_dump(include={"input_price", "output_price"}, exclude_none=True)
        if coach.models:
            shared["models"] = [m.model_dump(exclude_none=True) for m in coach.models]
        own = {**shared, **own}
    return {**coach.model_dump(include=set(JUDGE_LIMITS)), **own}
