"""Sections of `ratchet.toml` that a server reads; its file need not name an agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    Field,
    model_validator,
)

from ratchet.autopilot.sections import (
    EnvironmentVariable,
    ModelName,
    Name,
    Positive,
    Price,
    Section,
    Several,
    Url,
    read_sections,
)

Days = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


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
    base_url: Url
    key_env: EnvironmentVariable | None = None
    models: dict[str, str] = {}
    timeout_s: Positive = 600.0
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 256
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    adapters: str = ""

    @model_validator(mode="after")
    def _known_patterns(self) -> UpstreamSection:
        for model in self.models:
            if "*" in model[:-1]:
                raise ValueError(f"the model name {model!r} may have a star only at its end")
        return self


class PriceSection(Section):
    """[prices.MODEL]: the price of a model, in dollars per million tokens."""

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


def read_server_config(path: Path) -> ServerConfig:
    """Read and check the part of a configuration file that a server needs, ignoring the rest.

    Raises:
        ConfigError: As for `read_sections`.
    """
    return read_sections(path, ServerConfig, only=ServerConfig.model_fields)


def apply_prices(config: ServerConfig) -> None:
    """Set the configured prices of models for this process."""
    if not config.prices and "ratchet.llm.prices" not in sys.modules:
        return  # nothing to set or to reset, and the import takes its time
    from ratchet.llm.prices import ModelPrice, set_prices

    set_prices({name: ModelPrice(**price.model_dump()) for name, price in config.prices.items()})
