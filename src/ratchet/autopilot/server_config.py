"""The part of `ratchet.toml` that a server reads: addresses, limits, redaction and more."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ratchet.autopilot.sections import Positive, Section, Several

Days = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class LimitsSection(Section):
    """[server.limits]: how much at once."""

    body_mb: Annotated[float, Field(gt=0, le=1024)] = 32.0
    requests_per_s: Positive = 2000.0
    burst: Annotated[int, Field(ge=1)] = 4000
    streams: Annotated[int, Field(ge=1)] = 512
    pending_spans: Annotated[int, Field(ge=1000)] = 50_000
    public_per_s: Positive = 5.0
    public_burst: Annotated[int, Field(ge=1)] = 30
    public_body_kb: Annotated[float, Field(gt=0, le=32_768)] = 64.0


class ServerSection(Section):
    """[server]: where it listens, and who may come."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    require_key: bool = False
    hosts: Several[str] = ()
    cors: Several[str] = ()
    limits: LimitsSection = LimitsSection()


class RetentionSection(Section):
    """[retention]: days that each noun is kept; what is left out is kept for ever."""

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

    dialect: Literal["openai", "anthropic"]
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    models: dict[str, str] = {}
    timeout_s: Positive = 600.0
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 256
    retries: Annotated[int, Field(ge=0, le=10)] = 0

    @model_validator(mode="after")
    def _known_patterns(self) -> UpstreamSection:
        for asked in self.models:
            if "*" in asked[:-1]:
                raise ValueError(f"the model name {asked!r} may end with a star, not hold one")
        return self


class RedactionSection(Section):
    """[redaction]: what is taken out of spans and feedback before they are stored."""

    enabled: bool = True
    rules: Several[str] = ()
    keys: Several[str] = ()
    patterns: dict[str, str] = {}
    allow: Several[str] = ()
    pseudonyms: bool = False
    capture_content: bool = True


class StoreSection(Section):
    """[store]: where everything is kept."""

    url: str | None = None


class ServerConfig(Section):
    """What a server reads of a `ratchet.toml`; the file need not name an agent."""

    server: ServerSection = ServerSection()
    retention: RetentionSection = RetentionSection()
    upstreams: dict[Name, UpstreamSection] = {}
    store: StoreSection = StoreSection()
    redaction: RedactionSection = RedactionSection()
