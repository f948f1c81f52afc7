"""The [coach] section of `ratchet.toml`: which models are asked, where, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ratchet.autopilot.sections import Positive, Section, Several

Url = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
Variable = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]
Temperature = Annotated[float, Field(ge=0, le=10)]
Tokens = Annotated[int, Field(ge=1)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class CoachModelSection(Section):
    """[[coach.models]]: one model of several."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    weight: Positive = 1.0
    base_url: Url | None = None
    key_env: Variable | None = None
    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    input_price: Price | None = None
    output_price: Price | None = None


class CoachSection(Section):
    """[coach]: the LLM that algorithms ask."""

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    models: Several[CoachModelSection] = ()
    base_url: Url | None = None
    key_env: Variable | None = None
    timeout_s: Positive = 120.0
    total_s: Positive = 600.0
    retries: Annotated[int, Field(ge=0, le=20)] = 6
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 16
    temperature: Temperature | None = None
    max_tokens: Tokens | None = 16_000
    input_price: Price | None = None
    output_price: Price | None = None

    @model_validator(mode="after")
    def _model_or_models(self) -> CoachSection:
        if self.model is not None and self.models:
            raise ValueError("[coach] takes either model or [[coach.models]]")
        names = [each.name for each in self.models]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"[[coach.models]] names {name!r} twice")
        return self
