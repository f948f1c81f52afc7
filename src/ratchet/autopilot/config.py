"""The schema of `ratchet.toml`, with its defaults."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from ratchet.autopilot.agent_section import AgentSection
from ratchet.autopilot.cycle_sections import (
    AutopilotSection,
    CanarySection,
    LiveSection,
    NotifySection,
    ShadowSection,
    WatchSection,
)
from ratchet.autopilot.learning_sections import (
    ChecksSection,
    CoachSection,
    EvaluatorSection,
    GuardrailSection,
    ImproveSection,
    ObjectiveSection,
    PromptFileSection,
    ProveSection,
    RunSection,
    SandboxSection,
    ShipSection,
    TasksSection,
    TrainSection,
)
from ratchet.autopilot.sections import ModelName, Section, Several, read_sections
from ratchet.autopilot.server_sections import ServerConfig
from ratchet.types import PromptFile


class ProjectSection(Section):
    """[project]: the project's name on a shared store."""

    name: ModelName | None = None


class Config(ServerConfig):
    """A whole `ratchet.toml`."""

    project: ProjectSection = ProjectSection()
    agent: AgentSection
    tasks: TasksSection = TasksSection()
    evaluators: Several[EvaluatorSection] = ()
    objective: ObjectiveSection = ObjectiveSection()
    run: RunSection = RunSection()
    prompt_files: Several[PromptFileSection] = ()
    improve: ImproveSection = ImproveSection()
    train: TrainSection = TrainSection()
    coach: CoachSection = CoachSection()
    checks: ChecksSection = ChecksSection()
    sandbox: SandboxSection = SandboxSection()
    prove: ProveSection = ProveSection()
    guardrails: Several[GuardrailSection] = ()
    ship: ShipSection = ShipSection()
    autopilot: AutopilotSection = AutopilotSection()
    shadow: ShadowSection = ShadowSection()
    canary: CanarySection = CanarySection()
    watch: WatchSection = WatchSection()
    notify: NotifySection = NotifySection()
    live: LiveSection = LiveSection()

    @model_validator(mode="after")
    def _prompt_files_of_a_function(self) -> Config:
        if self.prompt_files and self.agent.entry is None:
            raise ValueError(
                "[[prompt_files]] is for agents with an entry; prompts of a command or a service "
                "are found in its model calls at the gateway"
            )
        return self

    @property
    def imports_per_candidate(self) -> bool:
        """Whether processes import the agent for a single candidate, as prompt files require."""
        return self.run.import_per_candidate or bool(self.prompt_files)

    @property
    def files_of_prompts(self) -> tuple[PromptFile, ...]:
        """The files of [[prompt_files]]."""
        return tuple(
            PromptFile(section.path, section.fields, section.engine, section.name or "")
            for section in self.prompt_files
        )


def read_config(path: Path) -> Config:
    """Read and check a project's configuration file.

    Raises:
        ConfigError: It is missing, is not TOML, or has an unknown key or value; the message names
            the key and, for an unknown key, the nearest known one.
    """
    return read_sections(path, Config)
