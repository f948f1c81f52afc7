"""`ratchet migrate`: move an agent to another model once it is proved no worse."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot import Project
from ratchet.autopilot.agent_model import agent_model, in_thread
from ratchet.autopilot.agent_section import AgentModelSection
from ratchet.autopilot.asked_models import MAX_TASKS_RUN, asked_models, only_model
from ratchet.autopilot.config import Config
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.cli.console import (
    DatasetOption,
    Folder,
    Json,
    SkipBad,
    out,
    print_json,
    project_in,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.cli.improve import (
    AtMostOption,
    RolloutsOption,
    SeedOption,
    ShipOption,
    improve_project,
    with_budget,
)
from ratchet.cli.run_outcome import print_outcome
from ratchet.llm import price
from ratchet.types import ConfigError, InputError, Model
from ratchet.types.trace import ModelCall
from ratchet.types.wording import counted


def migrate(
    to: Annotated[
        str, typer.Option("--to", help="The new model, as a client names it; or local:NAME.")
    ],
    folder: Folder = Path("."),
    old: Annotated[
        str | None,
        typer.Option("--from", help="The model to move from, if the agent uses several."),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=0.99,
            help="How much lower the new model may score. [default: the tightest margin that the"
            " test tasks can prove]",
        ),
    ] = None,
    learn: Annotated[
        bool, typer.Option(help="Learn the prompts for the new model if it scores lower.")
    ] = True,
    seed: SeedOption = None,
    rollouts: RolloutsOption = None,
    at_most: AtMostOption = None,
    ship: ShipOption = True,
    dataset: DatasetOption = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Move the agent to another model once it is proved no worse.

    The new model gets the old prompts first. Where it scores lower, the prompts are learned for it.
    Then both run on tasks that learning never saw: the change is shipped if the new model scores
    lower by no more than the margin, which is fixed and printed before the first of them. What it
    saves in cost and time is in the report.

    Examples:

      ratchet migrate --to gpt-6-luna

      ratchet migrate --from claude-haiku-5-5 --to gpt-6-luna --margin 0.05

      ratchet migrate --to local:qwen2.5-coder-0.5b --no-ship --json
    """
    project = with_budget(project_in(folder).with_dataset(dataset), rollouts, None)
    project = _moving(project, to, old, margin, learn, skip_bad=skip_bad, quiet=json)
    outcome = improve_project(
        project, seed=seed, ship=ship, skip_bad=skip_bad, quiet=json, at_most=at_most
    )
    if json:
        print_json(outcome.for_machines())
    else:
        print_outcome(outcome)


def _moving(
    project: Project,
    to: str,
    old: str | None,
    margin: float | None,
    learn: bool,
    *,
    skip_bad: bool,
    quiet: bool,
) -> Project:
    """The project with the migration as its algorithm, and the model that it moves."""
    config = project.config
    options: dict[str, Any] = {"to": to, "learn": config.improve.algorithm if learn else ""}
    if learn and config.improve.options:
        options["learn_options"] = config.improve.options
    if margin is not None:
        options["margin"] = margin
    agent = project.load_agent()
    evaluators = project_evaluators(project)
    objective_of(project.config, evaluators, agent)  # refused before anything is run
    _check_price(project, to)
    declared = {
        declaration.resource.model
        for declaration in agent.declarations.values()
        if isinstance(declaration.resource, Model)
    }
    if not declared or (old is not None and old not in declared):
        models = wait_for(_asked(project, skip_bad, quiet), quiet=quiet)
        if old is not None and old not in models:
            raise InputError(
                f"The agent's calls use {', '.join(models)}, not {old}.",
                hint=f"It was run on {counted(MAX_TASKS_RUN, 'train task')}. If it is used only "
                "on other tasks, name it in ratchet.toml:"
                f'\n\n[[agent.models]]\nmodel = "{old}"\nchoices = ["{to}"]\n',
            )
        old = old or only_model(models)
        if old == to:
            raise InputError(f"The agent already uses {to}.")
        asked = AgentModelSection(name="model", model=old, choices=(to,))
        config = _with_models(config, (*config.agent.models, asked))
    else:
        sections = tuple(
            section.model_copy(update={"choices": (*section.choices, to)})
            for section in config.agent.models
        )
        config = _with_models(config, sections)
    if old is not None:
        options["old"] = old
    improve = config.improve.model_copy(update={"algorithm": "migrate", "options": options})
    return project.with_config(config.model_copy(update={"improve": improve}))


def _check_price(project: Project, to: str) -> None:
    """Check that the price of the new model is known if a guardrail needs it.

    Raises:
        ConfigError: It cannot, and the guardrail on cost would refuse the move at the end.
    """
    guards_cost = not any(
        section.metric == "cost" and section.off for section in project.config.guardrails
    )
    is_local = to == "local" or to.startswith("local:")
    call = ModelCall(model=to, input_tokens=1_000, output_tokens=1_000)
    if guards_cost and not is_local and price(call) is None:
        raise ConfigError(
            f"The price of {to} is unknown. Without it, the cost guardrail cannot be proved to "
            "hold, so nothing would ship.",
            hint=f'Set it, in dollars per million tokens:\n\n[prices."{to}"]\ninput = …\n'
            'output = …\n\nOr turn the guardrail off:\n\n[[guardrails]]\nmetric = "cost"\n'
            "off = true\n",
        )


def _with_models(config: Config, sections: tuple[AgentModelSection, ...]) -> Config:
    agent = config.agent.model_copy(update={"models": sections})
    return config.model_copy(update={"agent": agent})


async def _asked(project: Project, skip_bad: bool, quiet: bool) -> Counter[str]:
    """Number of the agent's calls, by model."""

    def say(sentence: str) -> None:
        (err if quiet else out).print(sentence, markup=False)

    async with in_thread(agent_model(project, say)):
        with project.open_store() as store:
            dataset, _ = project_dataset(project, skip_bad=skip_bad, store=store)
            agent = project.load_agent()
            models = await asked_models(project, store, agent, dataset, say)
    say(f"The agent calls {', '.join(models)}.")
    return models
