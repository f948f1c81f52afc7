"""Sections of `ratchet.toml` for one run: tasks, evaluators, learning, proof and release."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from ratchet.autopilot.sections import (
    EnvironmentVariable,
    KeyVariable,
    Level,
    ModelName,
    Name,
    Positive,
    Price,
    Section,
    Several,
    Share,
    Url,
)
from ratchet.run import Kind
from ratchet.types.experiment import MAX_REPETITIONS
from ratchet.types.template import Engine

Temperature = Annotated[float, Field(ge=0, le=10)]
Tokens = Annotated[int, Field(ge=1)]
HostAndPort = Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-]+:\d{1,5}$")]


class CoachModelSection(Section):
    """[[coach.models]]: one of several models."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    weight: Positive = 1.0
    base_url: Url | None = None
    key_env: KeyVariable | None = None
    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    input_price: Price | None = None
    output_price: Price | None = None


class CoachSection(Section):
    """[coach]: the LLM that algorithms call."""

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    models: Several[CoachModelSection] = ()
    base_url: Url | None = None
    key_env: KeyVariable | None = None
    timeout_s: Positive = 120.0
    total_s: Positive = 600.0
    retries: Annotated[int, Field(ge=0, le=20)] = 6
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 16
    temperature: Temperature | None = None
    max_tokens: Tokens | None = 16_000
    guidelines: Annotated[str, Field(max_length=20_000)] = ""
    input_price: Price | None = None
    output_price: Price | None = None

    @model_validator(mode="after")
    def _model_or_models(self) -> CoachSection:
        if self.model is not None and self.models:
            raise ValueError("[coach] takes either model or [[coach.models]]")
        names = [model.name for model in self.models]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"[[coach.models]] names {name!r} twice")
        return self


class SandboxSection(Section):
    """[sandbox]: where candidates' code runs."""

    level: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    memory_mb: Annotated[int, Field(ge=64)] = 512
    seconds: Positive | None = None
    slots: Annotated[int, Field(ge=1, le=256)] | None = None
    connect: Several[HostAndPort] = ()
    environment: Several[EnvironmentVariable] = ()
    read: Several[str] = ()
    hide: Several[str] = ()
    check_returns: bool = True
    unsafe: bool = False
    unsafe_self_graded: bool = False


class ChecksSection(Section):
    """[checks]: what a candidate must pass before rollouts are spent on it."""

    prompt_growth: Annotated[float, Field(ge=1, le=1000)] = 4.0
    types: bool = True
    tests: bool = True
    tests_s: Positive = 120.0


class SplitSection(Section):
    """split under [tasks]: shares of the groups of tasks."""

    train: Share = 0.4
    val: Share = 0.2
    test: Share = 0.4


class TasksSection(Section):
    """[tasks]: the task file and its splits."""

    file: str = "tasks.jsonl"
    dataset: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    input: str = "input"
    expected: str = "expected"
    id: str = "id"
    group_by: str | None = None
    near_duplicates: bool = True
    split: SplitSection = SplitSection()

    @model_validator(mode="after")
    def _one_source(self) -> TasksSection:
        if self.dataset is not None and "file" in self.model_fields_set:
            raise ValueError("[tasks] takes either file or dataset")
        return self


class EvaluatorSection(BaseModel):
    """[[evaluators]]: one evaluator; additional keys are its options."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    use: str
    name: str | None = None
    vouched: bool = False
    on_error: Literal["zero", "missing"] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The evaluator's own options."""
        return dict(self.__pydantic_extra__ or {})


class SubjectToSection(Section):
    """An entry of `subject_to`: a metric that may get worse by no more than its margin."""

    metric: str
    margin: Annotated[float, Field(gt=0, lt=1)]


class ObjectiveSection(Section):
    """[objective]: the score to improve, or what to save while scores hold."""

    evaluator: str | None = None
    minimise: Literal["cost", "latency", "tokens"] | None = None
    subject_to: Several[SubjectToSection] = ()

    @model_validator(mode="after")
    def _consistent(self) -> ObjectiveSection:
        if self.subject_to and self.minimise is None:
            raise ValueError("subject_to needs minimise: it says what must not get worse meanwhile")
        metrics = [entry.metric for entry in self.subject_to]
        if len(set(metrics)) < len(metrics):
            raise ValueError("subject_to names a metric twice")
        if self.minimise in metrics:
            raise ValueError(f"{self.minimise} is minimised, so it cannot be in subject_to as well")
        return self

    @property
    def score(self) -> str | None:
        """The evaluator whose score has to improve, or to hold; None for the usual one."""
        return self.evaluator or (self.subject_to[0].metric if self.subject_to else None)

    @property
    def margin(self) -> float | None:
        """How much lower that score may be; None for the tightest that can be proved."""
        margins = {entry.metric: entry.margin for entry in self.subject_to}
        return margins.get(self.score or "")


class RunSection(Section):
    """[run]: how rollouts run."""

    executor: Kind = "auto"
    concurrency: Annotated[int, Field(ge=1, le=4096)] | None = None
    timeout_s: Positive = 120.0
    attempts: Annotated[int, Field(ge=1, le=20)] = 2
    memory_mb: Annotated[int, Field(ge=64)] | None = None
    import_per_candidate: bool = False
    server: Url | None = None
    server_concurrency: Annotated[int, Field(ge=1, le=4096)] = 64
    ray_address: Annotated[str, Field(min_length=1, max_length=300)] | None = None


class PromptFileSection(Section):
    """[[prompt_files]]: a file whose text, or some of whose fields, are prompts."""

    path: Annotated[str, Field(min_length=1)]
    fields: Several[Annotated[str, Field(min_length=1)]] = ()
    engine: Engine | None = None
    name: Name | None = None


class BudgetSection(Section):
    """[improve.budget]: limits of learning."""

    rollouts: Annotated[int, Field(ge=1)] | None = 2000
    seconds: Positive | None = None
    coach_calls: Annotated[int, Field(ge=1)] | None = None
    dollars: Positive | None = None


TRAINS_WEIGHTS = frozenset({"sft", "dpo", "grpo", "ppo"})
"""Algorithms that train the model that the agent calls; it is served with its adapters then."""


class ImproveSection(Section):
    """[improve]: the learning algorithm. `options` are the algorithm's own parameters."""

    algorithm: str = "auto"
    seed: int = 0
    options: dict[str, Any] = {}
    budget: BudgetSection = BudgetSection()


class TrainSection(Section):
    """[train]: the hosted service that trains a model."""

    provider: str = "openai"
    base_url: Url | None = None
    key_env: EnvironmentVariable | None = None
    account: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    model: ModelName | None = None
    timeout_s: Positive = 60.0


def _repetitions(value: Any) -> Any:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if value == "auto" or (is_integer and 1 <= value <= MAX_REPETITIONS):
        return value
    raise ValueError(f'should be "auto" or a whole number from 1 to {MAX_REPETITIONS}')


Repetitions = Annotated[int | Literal["auto"], BeforeValidator(_repetitions)]


class ProveSection(Section):
    """[prove]: how much proof a promotion takes."""

    alpha: Level = 0.05
    min_gain: Annotated[float, Field(ge=0, lt=1)] = 0.01
    harm_alpha: Level = 0.05
    futility_alpha: Level = 0.05
    min_pairs: Annotated[int, Field(ge=1)] = 10
    repetitions: Repetitions = "auto"
    labels: Annotated[int, Field(ge=20, le=10_000)] = 50


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
    """[ship]: how a release is tested, and where its pull request is opened."""

    test: str | None = None
    timeout_s: Positive = 600.0
    environment: Several[str] = ()
    network: bool = False
    sandbox: bool = True
    show: Several[str] = ()
    pull_request: bool = False
    remote: Annotated[str, Field(min_length=1)] = "origin"
    base: Annotated[str, Field(min_length=1)] | None = None
    forge: Literal["github", "gitlab"] | None = None
    api_url: Url | None = None
    repository: Annotated[str, Field(pattern=r"^[^/\s]+(/[^/\s]+)+$")] | None = None
    token_env: EnvironmentVariable | None = None
    app_id: Annotated[str, Field(min_length=1)] | None = None
    app_key: Annotated[str, Field(min_length=1)] | None = None
    labels: Several[Annotated[str, Field(min_length=1)]] = ()
    reviewers: Several[Annotated[str, Field(min_length=1)]] = ()
    draft: bool = False
    max_open: Annotated[int, Field(ge=1)] = 2
    evidence: bool = False
    server_url: Url | None = None

    @model_validator(mode="after")
    def _whole_app(self) -> ShipSection:
        if (self.app_id is None) != (self.app_key is None):
            raise ValueError("[ship] takes app_id and app_key together, or neither")
        if self.app_id is not None and self.token_env is not None:
            raise ValueError("[ship] takes either token_env or app_id and app_key")
        if self.app_id is not None and self.forge == "gitlab":
            raise ValueError("[ship] app_id is for GitHub")
        return self
