"""The schema of `ratchet.toml`, with its defaults."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from ratchet.autopilot.cycle_sections import (
    AutopilotSection,
    CanarySection,
    NotifySection,
    ShadowSection,
    WatchSection,
)
from ratchet.autopilot.sections import (
    Level,
    Positive,
    Section,
    Several,
    Share,
    read_sections,
)
from ratchet.run import Kind
from ratchet.types import OLD_SCOPE, ConfigError, PromptFile
from ratchet.types.experiment import MAX_REPETITIONS
from ratchet.types.template import Engine

if TYPE_CHECKING:
    from ratchet.run.handover import Handover

Url = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
KeyVariable = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]
Temperature = Annotated[float, Field(ge=0, le=10)]
Tokens = Annotated[int, Field(ge=1)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]


HostAndPort = Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-]+:\d{1,5}$")]
ModelHost = Annotated[str, Field(pattern=r"^([a-z0-9.\-_]+|\[[0-9a-f:.]+\])(:\d{1,5})?$")]
"""`api.groq.com`, or `localhost:11434` where the port is not the scheme's usual one."""
_ALLOWED_HOST = re.compile(r"(?:\*|(?:\*\.)?[A-Za-z0-9_.\-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})|/.+")


def _checked_host(text: str) -> str:
    match = _ALLOWED_HOST.fullmatch(text)
    if match is None or not (match[1] is None or 0 < int(match[1]) < 65_536):
        raise ValueError(
            'should be a host with its port, such as "api.example.com:443", "*.example.com:443" or'
            ' "localhost:5432"; or the path of a unix socket'
        )
    return text


AllowedHost = Annotated[str, AfterValidator(_checked_host)]
EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Days = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


def _one_or_more(value: Any) -> Any:
    """A single string as a list of one; a TOML array as it is."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


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


class LimitsSection(Section):
    """[server.limits]: concurrency and size limits."""

    body_mb: Annotated[float, Field(gt=0, le=1024)] = 32.0
    requests_per_s: Positive = 2000.0
    burst: Annotated[int, Field(ge=1)] = 4000
    streams: Annotated[int, Field(ge=1)] = 512
    pending_spans: Annotated[int, Field(ge=1000)] = 50_000
    public_per_s: Positive = 5.0
    public_burst: Annotated[int, Field(ge=1)] = 30
    public_body_kb: Annotated[float, Field(gt=0, le=32_768)] = 64.0


class AllowSection(Section):
    """[server.oidc.allow]: who may do what, by scope."""

    feedback: Several[str] = ()
    ingest: Several[str] = ()
    runner: Several[str] = ()
    develop: Several[str] = ()
    read: Several[str] = ()
    admin: Several[str] = ()

    @model_validator(mode="before")
    @classmethod
    def _no_old_scope(cls, values: Any) -> Any:
        if isinstance(values, dict) and "run" in values:
            raise ValueError(f"[server.oidc.allow] names a scope that is no longer: {OLD_SCOPE}")
        return values


class OidcSection(Section):
    """[server.oidc]: the provider that people log in with."""

    issuer: Url
    client_id: Annotated[str, Field(min_length=1, max_length=500)]
    url: Url
    secret_env: EnvironmentVariable | None = None
    name: Annotated[str, Field(min_length=1, max_length=60)] = "single sign-on"
    hours: Positive = 12.0
    groups_claim: Annotated[str, Field(min_length=1, max_length=200)] = "groups"
    allow: AllowSection = AllowSection()


class ServerSection(Section):
    """[server]: address and access."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    require_key: bool = False
    hosts: Several[str] = ()
    root_path: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~-]+)*$")] = ""
    trusted_proxies: Several[str] = ()
    cors: Several[str] = ()
    limits: LimitsSection = LimitsSection()
    oidc: OidcSection | None = None


class LiveSection(Section):
    """[live]: which live calls are repeated for a candidate, and at what cost."""

    mirror: bool | Share = False
    per_minute: Positive = 60.0
    dollars: Positive = 5.0
    rerun: bool = False


class RetentionSection(Section):
    """[retention]: days to keep records of each kind; unlimited when left out."""

    spans_days: Days = None
    rollouts_days: Days = None
    journal_days: Days = None
    candidates_days: Days = None
    datasets_days: Days = None
    feedback_days: Days = None
    audit_days: Days = 365.0
    events_days: Days = 7.0


class UpstreamSection(Section):
    """[upstreams.NAME]: a provider behind the gateway."""

    dialect: Literal["openai", "anthropic", "ollama"]
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    models: dict[str, str] = {}
    timeout_s: Positive = 600.0
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 256
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    adapters: str = ""

    @model_validator(mode="after")
    def _known_patterns(self) -> UpstreamSection:
        for model in self.models:
            if "*" in model[:-1]:
                raise ValueError(f"the model name {model!r} may end with a star, not hold one")
        return self


class PriceSection(Section):
    """[prices.MODEL]: what a model costs, in dollars per million tokens."""

    input: Price
    output: Price
    cache_read: Price | None = None
    cache_write: Price | None = None


class RedactionSection(Section):
    """[redaction]: what is removed from spans and feedback before they are stored."""

    enabled: bool = True
    rules: Several[str] = ()
    keys: Several[str] = ()
    patterns: dict[str, str] = {}
    allow: Several[str] = ()
    pseudonyms: bool = False
    capture_content: bool = True


class StoreSection(Section):
    """[store]: location of the store."""

    url: str | None = None


class ServerConfig(Section):
    """The part of `ratchet.toml` that a server reads; the file need not name an agent."""

    server: ServerSection = ServerSection()
    retention: RetentionSection = RetentionSection()
    upstreams: dict[Name, UpstreamSection] = {}
    store: StoreSection = StoreSection()
    redaction: RedactionSection = RedactionSection()
    prices: dict[ModelName, PriceSection] = {}


class ProjectSection(Section):
    """[project]: the project's name on a shared store."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None


LOOPBACK = ("127.0.0.1", "localhost", "::1")


class AgentAllowSection(Section):
    """[agent.allow]: what rollouts may do outside of themselves."""

    hosts: Several[AllowedHost] = ()
    programs: Several[Annotated[str, Field(min_length=1)]] = ()
    folders: Several[Annotated[str, Field(min_length=1)]] = ()
    absent: Several[Annotated[str, Field(min_length=1)]] = ()


class AgentModelSection(Section):
    """[[agent.models]]: a model that the agent's calls name, and what may take its place."""

    name: Name = "model"
    model: Annotated[str, Field(min_length=1)]
    choices: Several[Annotated[str, Field(min_length=1)]] = ()


class AgentSection(Section):
    """[agent]: the agent; a function, a command, or a service."""

    entry: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] | None = None
    command: Annotated[str, Field(min_length=1)] | None = None
    url: Url | None = None
    serve: Annotated[str, Field(min_length=1)] | None = None
    stdin: str | None = None
    body: Annotated[str, Field(min_length=1)] | None = None
    query: dict[str, str] | None = None
    method: Literal["GET", "POST", "PUT", "PATCH"] | None = None
    output: Annotated[str, Field(min_length=1)] | None = None
    arguments: dict[str, Any] | None = None
    constructing: dict[str, Any] | None = Field(default=None, alias="construct")
    name: Name | None = None
    model_base_url: Annotated[tuple[EnvironmentVariable, ...], BeforeValidator(_one_or_more)] = ()
    model_key: Annotated[tuple[EnvironmentVariable, ...], BeforeValidator(_one_or_more)] = ()
    model_hosts: Several[ModelHost] = ()
    path: Several[str] = (".",)
    python: Annotated[str, Field(min_length=1)] | None = None
    prompts: Literal["declared", "calls"] = "declared"
    allow: AgentAllowSection | None = None
    model: str | None = None
    models: Several[AgentModelSection] = ()
    device: Annotated[str, Field(min_length=1)] = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"

    @field_validator("model")
    @classmethod
    def _local(cls, name: str | None) -> str | None:
        if name is not None and name != "local" and not name.startswith("local:"):
            raise ValueError(
                'should be "local" or "local:NAME"; a model elsewhere is named in the agent'
            )
        return name

    @model_validator(mode="after")
    def _one_agent(self) -> AgentSection:
        starts = [key for key in ("entry", "command", "url") if getattr(self, key) is not None]
        if len(starts) != 1:
            excess = f"; it has {' and '.join(starts)}" if starts else ""
            raise ValueError(
                "[agent] needs one of entry (a Python function), command (a program) and url"
                f" (a running service){excess}"
            )
        if self.entry is None and self.python is not None:
            raise ValueError("python is the interpreter of an entry; a command names its own")
        started = self.command is not None or self.serve is not None
        if not started and (self.model_base_url or self.model_key):
            raise ValueError(
                "model_base_url and model_key are variables of a command, or of a service that"
                " serve starts"
            )
        led = started or (self.entry is not None and self.prompts == "calls")
        if self.model_hosts and not led:
            raise ValueError(
                "model_hosts are for a command, a service that serve starts, or an entry with"
                ' prompts = "calls": their model calls come through the gateway'
            )
        return self

    @model_validator(mode="after")
    def _settings_of_its_kind(self) -> AgentSection:
        from ratchet.worker.placeholders import check_placeholders

        try:
            handover = self.handover
            for key, setting, kind in (
                ("command", handover.words or None, "command"),
                ("stdin", handover.stdin, "command"),
                ("body", handover.body, "url"),
                ("query", self.query, "url"),
                ("method", self.method, "url"),
                ("serve", self.serving or None, "url"),
                ("arguments", self.arguments, "entry"),
                ("construct", self.constructing, "entry"),
            ):
                if setting is not None and getattr(self, kind) is None:
                    raise ConfigError(f"{key} belongs to an agent with {kind}.")
                check_placeholders(setting, key, "port" if key == "serve" else "input")
            handover.check_output(self.entry is None, is_command=self.command is not None)
        except ConfigError as error:
            raise ValueError(f"{error.message} {error.hint or ''}".strip(". ")) from None
        host = urlsplit(self.url or "").hostname
        if self.serve is not None and host not in LOOPBACK:
            raise ValueError(
                f"serve starts a service on this machine, and url is at {host}; it should be"
                " http://127.0.0.1:PORT/PATH"
            )
        return self

    @property
    def runs_already(self) -> bool:
        """Whether it is a service that somebody else starts."""
        return self.url is not None and self.serve is None

    @property
    def parameters(self) -> dict[str, Any]:
        """What an entry and the class of its method get, as JSON data by `AgentSpec`'s names."""
        arguments = None if self.arguments is None else msgspec.to_builtins(self.arguments)
        return {"arguments": arguments, "construct": msgspec.to_builtins(self.constructing or {})}

    @property
    def serving(self) -> tuple[str, ...]:
        """Program and arguments that start a service; none where it runs already."""
        from ratchet.run.handover import parse_command

        return () if self.serve is None else parse_command(self.serve)

    @property
    def handover(self) -> Handover:
        """What a command or a service is given of a task, and where its answer is.

        Raises:
            ConfigError: The command or the body cannot be read.
        """
        from ratchet.run.handover import Handover, parse_command

        try:
            body = None if self.body is None else msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise ConfigError(f"body should be JSON: {error}.") from None
        return Handover(
            words=() if self.command is None else parse_command(self.command),
            stdin=self.stdin,
            body=body,
            query=self.query or {},
            method=self.method or "POST",
            output=self.output or "",
        )

    @property
    def label(self) -> str:
        """The agent as it is configured: MODULE:FUNCTION, a command line, or a URL."""
        return self.entry or self.command or self.url or ""


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
    """[objective]: the score to improve, or what to save while scores stay."""

    evaluator: str | None = None
    minimise: Literal["cost", "latency", "tokens"] | None = None
    subject_to: Several[SubjectToSection] = ()

    @model_validator(mode="after")
    def _consistent(self) -> ObjectiveSection:
        if self.subject_to and self.minimise is None:
            raise ValueError("subject_to belongs to minimise: it says what has to stay")
        metrics = [entry.metric for entry in self.subject_to]
        if len(set(metrics)) < len(metrics):
            raise ValueError("subject_to names a metric twice")
        if self.minimise in metrics:
            raise ValueError(f"{self.minimise} is minimised, and cannot be in subject_to as well")
        return self

    @property
    def score(self) -> str | None:
        """The evaluator whose score is improved, or has to stay; None for the usual one."""
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


class Config(Section):
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
    store: StoreSection = StoreSection()
    server: ServerSection = ServerSection()
    retention: RetentionSection = RetentionSection()
    redaction: RedactionSection = RedactionSection()
    upstreams: dict[Name, UpstreamSection] = {}
    prices: dict[ModelName, PriceSection] = {}

    @model_validator(mode="after")
    def _prompt_files_of_a_function(self) -> Config:
        if self.prompt_files and self.agent.entry is None:
            raise ValueError(
                "[[prompt_files]] are for agents with an entry; the prompts of a command or a"
                " service are found in its model calls at the gateway"
            )
        return self

    @property
    def imports_per_candidate(self) -> bool:
        """Whether each candidate is imported in processes of its own; files of prompts need it."""
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


def read_server_config(path: Path) -> ServerConfig:
    """Read and check the part of a configuration file that a server needs, ignoring the rest.

    Raises:
        ConfigError: As for `read_config`.
    """
    return read_sections(path, ServerConfig, only=ServerConfig.model_fields)


def apply_prices(config: Config | ServerConfig) -> None:
    """Set the configured prices of models for this process."""
    if not config.prices and "ratchet.llm.prices" not in sys.modules:
        return  # nothing to set or to reset, and the import takes its time
    from ratchet.llm.prices import ModelPrice, set_prices

    set_prices({name: ModelPrice(**price.model_dump()) for name, price in config.prices.items()})


__all__ = ["Config", "ServerConfig", "apply_prices", "read_config", "read_server_config"]
