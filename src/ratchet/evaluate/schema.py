"""Evaluator that checks the output against a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.evaluate.check_process import schema_error, schema_error_within_limit
from ratchet.llm.answer_text import answer_of, comparable, json_in
from ratchet.types import ConfigError, InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement


def json_schema(
    *, schema: Mapping[str, Any] | None = None, file: str | None = None
) -> FunctionEvaluator:
    """1 if the output, as data or JSON text, alone or in a block, is valid under a JSON Schema.

    A schema with regular expressions (`pattern`, `patternProperties`) is checked in a separate
    process for at most MATCH_S seconds, since an output can make them backtrack without end.

    Args:
        schema: The schema.
        file: Path of a JSON file with the schema. Exactly one of the two is required.

    Raises:
        ConfigError: None or both are given, or the file cannot be read.
        InputError: It is not a JSON schema.
    """
    if (schema is None) == (file is None):
        raise ConfigError("json_schema takes either a schema or a file.")
    applied_schema = _read(file) if file is not None else dict(schema or {})
    _check(applied_schema)
    endless = '"pattern' in json.dumps(applied_schema)
    check = schema_error_within_limit if endless else schema_error

    def judge(output: Any) -> Judgement:
        try:
            value = json_in(answer_of(output))
        except ValueError as error:
            return Judgement(0.0, f"the output is not JSON: {error}")
        wrong = check(comparable(applied_schema), comparable(value))
        return Judgement(1.0) if wrong is None else Judgement(0.0, wrong)

    return FunctionEvaluator(
        judge, name="json_schema", options={"schema": applied_schema}, trusted=not endless
    )


def _check(schema: dict[str, Any]) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise InputError(
            f"This is not a JSON Schema: at {error.json_path}: {error.message}."
        ) from None


def _read(file: str) -> dict[str, Any]:
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The schema file {file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigError(f"The schema file {file} is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"The schema file {file} does not hold a JSON object.")
    return data
