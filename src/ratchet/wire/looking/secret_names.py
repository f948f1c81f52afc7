"""Secrets by their names: variables that code reads, fields of settings, files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.wire.facts import Place, SecretName
from ratchet.wire.looking.files import RepositoryFiles
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import CodeModule, CodeScope, Invocation, TextValue

_SECRET = re.compile(
    r"KEY|TOKEN(?!S)|SECRET|PASSWORD|PASSWD|CREDENTIAL|DATABASE_URL|_DSN", re.IGNORECASE
)
_VARIABLE = re.compile(
    r"(?:environ(?:\.(?:get|setdefault|pop))?|getenv|process\.env|import\.meta\.env|Bun\.env|config"
    r"|\benv(?:\.\w+)?)\s*(?:\(\s*|\[\s*|\.)['\"]?([A-Z][A-Z0-9_]{2,})"
)
_UNPACKED = re.compile(r"\{([^{}]*)\}\s*=\s*process\.env\b")


def find_secrets(
    names: Names, files: RepositoryFiles, live: frozenset[str]
) -> Iterator[SecretName]:
    """Secrets by name; no value of the environment and no file of secrets is read.

    Args:
        names: Names of the program.
        files: Files of the repository.
        live: Files that the agent consists of.
    """
    found: dict[str, SecretName] = {}
    for module in names.program.modules:
        if module.path not in live:
            continue
        for name, line, reason in (*_variables(module.text), *_settings(names, module)):
            if _SECRET.search(name):
                place = Place(module.path, line)
                found.setdefault(name, SecretName(name, place, "variable", reason))
    for name in sorted(found):
        yield found[name]
    for path in files.secret:
        yield SecretName(path, Place(path), "file", "by its name; it was not opened")


def _variables(text: str) -> Iterator[tuple[str, int, str]]:
    for one in _VARIABLE.finditer(text):
        yield one[1], text.count("\n", 0, one.start()) + 1, "read from the environment"
    for one in _UNPACKED.finditer(text):
        for name in re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", one[1]):
            yield name, text.count("\n", 0, one.start()) + 1, "read from the environment"


def _settings(names: Names, module: CodeModule) -> Iterator[tuple[str, int, str]]:
    """Fields of pydantic's settings, by the variables that they are read from."""
    for scope in module.scope.walk():
        if scope.kind != "class" or not any(
            base.startswith("pydantic") and base.endswith(".BaseSettings")
            for base in names.classes.outside_bases(scope)
        ):
            continue
        prefix = _prefix(scope)
        for field, annotation in scope.annotations.items():
            value = next((one.value for one in scope.attributes.get(field, ())), None)
            alias = value.keywords if isinstance(value, Invocation) else {}
            given = alias.get("validation_alias") or alias.get("alias") or alias.get("env")
            name = given.value if isinstance(given, TextValue) else prefix + field
            yield name.upper(), annotation.line, f"a field of {scope.dotted}, a class of settings"


def _prefix(scope: CodeScope) -> str:
    for bound in scope.attributes.get("model_config", ()):
        if isinstance(bound.value, Invocation):
            given = bound.value.keywords.get("env_prefix")
            if isinstance(given, TextValue):
                return given.value
    return ""
