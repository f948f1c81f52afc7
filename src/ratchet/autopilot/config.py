"""`ratchet.toml`: what it may say, with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ratchet.autopilot.coach_config import CoachSection
from ratchet.autopilot.sandbox_config import ChecksSection, SandboxSection
from ratchet.autopilot.sections import (
    Level,
    Positive,
    Section,
    Several,
    Share,
    read_sections,
)
from ratchet.autopilot.server_config import (
    Name,
    RedactionSection,
    RetentionSection,
    ServerConfig,
    ServerSection,
    StoreSection,
    UpstreamSection,
)
from ratchet.run import Kind


class ProjectSection(Section):
    """[project]: what the project is called on a store that others use too."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class AgentSection(Section):
    """[agent]: where the agent is."""

    entry: str = Field(pattern=r"^[\w.]+:[\w.]+$")
    path: Several[str] = (".",)


class SplitSection(Section):
    """split under [tasks]: shares of the groups of tasks."""

    train: Share = 0.4
    val: Share = 0.2
    test: Share = 0.4


class TasksSection(Section):
    """[tasks]: what the agent is to do."""

    file: str = "tasks.jsonl"
    input: str = "input"
    expected: str = "expected"
    id: str = "id"
    group_by: str | None = None
    split: SplitSection = SplitSection()


class EvaluatorSection(BaseModel):
    """[[evaluators]]: one evaluator; keys beyond these are its options."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    use: str
    name: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The evaluator's own options."""
        return dict(self.__pydantic_extra__ or {})


class ObjectiveSection(Section):
    """[objective]: what is to rise."""

    evaluator: str | None = None


class RunSection(Section):
    """[run]: how rollouts run."""

    executor: Kind = "auto"
    concurrency: Annotated[int, Field(ge=1, le=4096)] | None = None
    timeout_s: Positive = 120.0
    attempts: Annotated[int, Field(ge=1, le=20)] = 2
    memory_mb: Annotated[int, Field(ge=64)] | None = None


class BudgetSection(Section):
    """[improve.budget]: what learning may spend."""

    rollouts: Annotated[int, Field(ge=1)] | None = 2000
    seconds: Positive | None = None
    coach_calls: Annotated[int, Field(ge=1)] | None = None
    dollars: Positive | None = None


class ImproveSection(Section):
    """[improve]: how to learn. `options` are the algorithm's own parameters."""

    algorithm: str = "auto"
    seed: int = 0
    options: dict[str, Any] = {}
    budget: BudgetSection = BudgetSection()


class ProveSection(Section):
    """[prove]: how much proof a promotion takes."""

    alpha: Level = 0.05
    min_gain: Annotated[float, Field(ge=0, lt=1)] = 0.01
    harm_alpha: Level = 0.05
    futility_alpha: Level = 0.05
    min_pairs: Annotated[int, Field(ge=1)] = 10


class GuardrailSection(Section):
    """[[guardrails]]: a metric that must not get worse by more than a margin."""

    metric: str
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    relative_margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    scale: Positive | None = None
    off: bool = False

    @model_validator(mode="after")
    def _one_margin(self) -> GuardrailSection:
        if not self.off and (self.margin is None) == (self.relative_margin is None):
            raise ValueError(
                f"guardrail {self.metric!r} takes either margin or relative_margin (or off = true)"
            )
        return self


class ShipSection(Section):
    """[ship]: how a release is checked."""

    test: str | None = None
    timeout_s: Positive = 600.0
    environment: Several[str] = ()
    network: bool = False
    sandbox: bool = True
    show: Several[str] = ()


class Config(Section):
    """A whole `ratchet.toml`."""

    project: ProjectSection = ProjectSection()
    agent: AgentSection
    tasks: TasksSection = TasksSection()
    evaluators: Several[EvaluatorSection] = ()
    objective: ObjectiveSection = ObjectiveSection()
    run: RunSection = RunSection()
    improve: ImproveSection = ImproveSection()
    coach: CoachSection = CoachSection()
    checks: ChecksSection = ChecksSection()
    sandbox: SandboxSection = SandboxSection()
    prove: ProveSection = ProveSection()
    guardrails: Several[GuardrailSection] = ()
    ship: ShipSection = ShipSection()
    store: StoreSection = StoreSection()
    server: ServerSection = ServerSection()
    retention: RetentionSection = RetentionSection()
    redaction: RedactionSection = RedactionSection()
    upstreams: dict[Name, UpstreamSection] = {}


def read_config(path: Path) -> Config:
    """Read and check a project's configuration file.

    Raises:
        ConfigError: It is missing, no TOML, or says something that is not known; the message names
            the key and, for a key nobody knows, the nearest one that exists.
    """
    return read_sections(path, Config)


def read_server_config(path: Path) -> ServerConfig:
    """Read and check what a server needs of a configuration file; the rest is not looked at.

    Raises:
        ConfigError: As `read_config` does.
    """
    return read_sections(path, ServerConfig, only=ServerConfig.model_fields)


__all__ = ["Config", "ServerConfig", "read_config", "read_server_config"]
