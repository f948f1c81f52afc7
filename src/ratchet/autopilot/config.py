"""`ratchet.toml`: what it may say, with its defaults, and errors that name the line to mend."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ratchet.types import ConfigError

FILE_NAME = "ratchet.toml"

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Level = Annotated[float, Field(gt=0, le=0.5)]
T = TypeVar("T")
Several = Annotated[tuple[T, ...], Field(strict=False)]
"""A TOML list; its items are as strict as everything."""


class _Section(BaseModel):
    # Strict: a number in quotes, or true for 1, is a mistake to be named.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AgentSection(_Section):
    """[agent]: where the agent is."""

    entry: str = Field(pattern=r"^[\w.]+:[\w.]+$")
    path: Several[str] = (".",)


class SplitSection(_Section):
    """split under [tasks]: shares of the groups of tasks."""

    train: Share = 0.4
    val: Share = 0.2
    test: Share = 0.4


class TasksSection(_Section):
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


class ObjectiveSection(_Section):
    """[objective]: what is to rise."""

    evaluator: str | None = None


class RunSection(_Section):
    """[run]: how rollouts run."""

    executor: Literal["auto", "async", "process"] = "auto"
    concurrency: Annotated[int, Field(ge=1, le=4096)] | None = None
    timeout_s: Positive = 120.0
    attempts: Annotated[int, Field(ge=1, le=20)] = 2
    memory_mb: Annotated[int, Field(ge=64)] | None = None


class BudgetSection(_Section):
    """[improve.budget]: what learning may spend."""

    rollouts: Annotated[int, Field(ge=1)] | None = 2000
    seconds: Positive | None = None
    dollars: Positive | None = None


class ImproveSection(_Section):
    """[improve]: how to learn. `options` are the algorithm's own parameters."""

    algorithm: str = "tune"
    seed: int = 0
    options: dict[str, Any] = {}
    budget: BudgetSection = BudgetSection()


class ProveSection(_Section):
    """[prove]: how much proof a promotion takes."""

    alpha: Level = 0.05
    min_gain: Annotated[float, Field(ge=0, lt=1)] = 0.01
    harm_alpha: Level = 0.05
    futility_alpha: Level = 0.05
    min_pairs: Annotated[int, Field(ge=1)] = 10


class GuardrailSection(_Section):
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


class ShipSection(_Section):
    """[ship]: how a release is checked."""

    test: str | None = None
    timeout_s: Positive = 600.0
    environment: Several[str] = ()


class StoreSection(_Section):
    """[store]: where everything is kept."""

    url: str | None = None


class Config(_Section):
    """A whole `ratchet.toml`."""

    agent: AgentSection
    tasks: TasksSection = TasksSection()
    evaluators: Several[EvaluatorSection] = ()
    objective: ObjectiveSection = ObjectiveSection()
    run: RunSection = RunSection()
    improve: ImproveSection = ImproveSection()
    prove: ProveSection = ProveSection()
    guardrails: Several[GuardrailSection] = ()
    ship: ShipSection = ShipSection()
    store: StoreSection = StoreSection()


def read_config(path: Path) -> Config:
    """Read and check a configuration file.

    Raises:
        ConfigError: It is missing, no TOML, or says something that is not known; the message names
            the key and, for a key nobody knows, the nearest one that exists.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(
            f"There is no {path.name} in {path.parent}.",
            hint=f'The least that it says is: [agent] entry = "module:function". See {_DOCS}.',
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start + 1}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}.", hint="Mend that line.") from None
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_sentences(error)}", hint=f"See {_DOCS}.") from None


_DOCS = "docs/configuration.md"


def _sentences(error: ValidationError) -> str:
    # What is missing comes last: it is often what a misspelt key was meant to be.
    found = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
    problems = [_sentence(problem) for problem in found]
    return " ".join(problems[:5]) + (
        f" ({len(problems) - 5} more problems.)" if len(problems) > 5 else ""
    )


def _sentence(problem: Mapping[str, Any]) -> str:
    location = tuple(problem["loc"])
    where = _dotted(location)
    if problem["type"] == "extra_forbidden":
        known = _fields_at(location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.4)
        meant = f" Did you mean {near[0]!r}?" if near else f" Known here: {', '.join(known)}."
        return f"there is no key {where!r}.{meant}"
    if problem["type"] == "missing":
        return f"the key {where!r} is missing."
    if where == "agent.entry" and problem["type"] == "string_pattern_mismatch":
        return f"agent.entry = {problem['input']!r} is not MODULE:FUNCTION."
    plain = {"tuple_type": "should be a list", "dict_type": "should be a table"}
    plain["model_type"] = plain["dict_type"]
    message = plain.get(problem["type"], str(problem["msg"]).removeprefix("Value error, "))
    shown = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r}"
    return f"{where}{shown}: {message[:1].lower()}{message[1:]}."


def _dotted(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _fields_at(location: tuple[Any, ...]) -> list[str]:
    model: type[BaseModel] = Config
    for part in location:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation
        inner = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type)]
        model = next(a for a in inner if issubclass(a, BaseModel))
    return sorted(model.model_fields)
