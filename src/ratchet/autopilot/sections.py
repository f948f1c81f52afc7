"""Read sections of `ratchet.toml`, with errors that name the key to fix."""

from __future__ import annotations

import difflib
import tomllib
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ratchet.types import ConfigError
from ratchet.types.wording import counted

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Level = Annotated[float, Field(gt=0, le=0.5)]
Url = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
KeyVariable = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]
EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
T = TypeVar("T")
Several = Annotated[tuple[T, ...], Field(strict=False)]
"""A TOML list; its items are validated strictly."""


class Section(BaseModel):
    # Strict: a number in quotes, or true for 1, is reported as an error. Validators are built once
    # with the whole file's, not also for each section. Names that begin with model_ are ours.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True, protected_namespaces=()
    )


Sections = TypeVar("Sections", bound=Section)


def read_sections(
    path: Path, model: type[Sections], only: Collection[str] | None = None
) -> Sections:
    """Read and check a configuration file.

    Args:
        path: The file.
        model: Its schema.
        only: Top-level keys to read; all by default.

    Raises:
        ConfigError: It is missing, is not TOML, or has an unknown key or value; the message names
            the key and, for an unknown key, the nearest known one.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"There is no {path.name} in {path.parent}.",
            hint=f'A minimal one is: [agent] entry = "module:function". See {_DOCS}.',
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    return parse_sections(text, path, model, only)


def parse_sections(
    text: bytes, path: Path, model: type[Sections], only: Collection[str] | None = None
) -> Sections:
    """Check the text of a configuration file, which need not be stored.

    Arguments and errors are those of `read_sections`; `path` is for its messages.
    """
    try:
        data = tomllib.loads(text.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start + 1}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}.", hint="Fix that line.") from None
    try:
        if only is not None:
            data = {key: value for key, value in data.items() if key in only}
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_sentences(error, model)}", hint=f"See {_DOCS}.") from None


_DOCS = "docs/configuration.md"


def _sentences(error: ValidationError, model: type[BaseModel]) -> str:
    # Missing keys come last: they are often the misspelt ones.
    errors = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
    problems = [_sentence(problem, model) for problem in errors]
    return " ".join(problems[:5]) + (
        f" ({counted(len(problems) - 5, 'more problem')}.)" if len(problems) > 5 else ""
    )


def _sentence(problem: Mapping[str, Any], model: type[BaseModel]) -> str:
    location = tuple(problem["loc"])
    where = _dotted(location)
    if problem["type"] == "extra_forbidden":
        known_keys = _fields_at(location[:-1], model)
        near = difflib.get_close_matches(str(location[-1]), known_keys, n=1, cutoff=0.4)
        meant = f" Did you mean {near[0]!r}?" if near else f" Known here: {', '.join(known_keys)}."
        return f"there is no key {where!r}.{meant}"
    if problem["type"] == "missing" and where == "agent":
        return (
            'it does not say how to run the agent: [agent] entry = "module:function", or command.'
        )
    if problem["type"] == "missing":
        return f"the key {where!r} is missing."
    if where == "agent.entry" and problem["type"] == "string_pattern_mismatch":
        return f"agent.entry = {problem['input']!r} is not MODULE:FUNCTION."
    if location[-1:] == ("key_env",):
        # A secret is often pasted here by mistake, so the value is not repeated.
        return f"{where}: should be the name of an environment variable."
    if location[-1:] == ("base_url",) and problem["type"] == "string_pattern_mismatch":
        return f"{where} = {problem['input']!r}: should begin with http:// or https://."
    plain = {"tuple_type": "should be a list", "dict_type": "should be a table"}
    plain["model_type"] = plain["dict_type"]
    message = plain.get(problem["type"], str(problem["msg"]).removeprefix("Value error, "))
    assignment = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r}"
    return f"{where}{assignment}: {message[:1].lower()}{message[1:]}."


def _dotted(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _fields_at(location: tuple[Any, ...], model: type[BaseModel]) -> list[str]:
    annotation: Any = model
    for part in location:
        if isinstance(part, str):
            section = _model_in(annotation)
            is_field = section is not None and part in section.model_fields
            # In a table with user-defined keys, the schema describes the values.
            annotation = (
                section.model_fields[part].annotation if section and is_field else annotation
            )
    section = _model_in(annotation)
    return sorted(section.model_fields) if section else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, Annotated, tuple, dict, list):
        for inner in get_args(annotation):
            if (inner_model := _model_in(inner)) is not None:
                return inner_model
    return None
