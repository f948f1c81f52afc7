"""What is declared is imported, and what is imported is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.packaging.source_trees import source_trees

# The modules of this folder that read the whole source parse it once.
pytestmark = pytest.mark.xdist_group("source-trees")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

SHARED = {
    "google.protobuf": "protobuf",
    "opentelemetry.context": "opentelemetry-api",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.instrumentation": "opentelemetry-instrumentation",
    "opentelemetry.propagate": "opentelemetry-api",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
    "stdnum": "python-stdnum",
    "transfer_queue": "transferqueue",
    "yaml": "pyyaml",
}
"""Which distribution a module is of, where several share a package."""

NAMED = {"httptools": '"httptools"', "psycopg": '"postgresql+psycopg"'}
"""Distributions that another library imports for us, and the text by which it is told to."""

THERE_BY_THEN = {
    "opentelemetry-instrumentation": "each package of the extra instruments brings it",
    "openinference": "imported only where a package of the extra instruments was found",
    "httpx": "openai brings it, or httpx2",
    "httpx2": "openai brings it, or httpx",
    "streamlit": "the agent's page is one of Streamlit",
    "opentelemetry-exporter-otlp-proto-http": "the user's, who is told when it is missing",
}
"""Imported where something else has seen to it, and why nothing has to declare it."""


def _distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[ ;<>=!~\[]", each)[0].lower() for each in requirements}


RUNTIME = _distributions(PROJECT["dependencies"])
EXTRAS = {
    name: _distributions(requirements)
    for name, requirements in PROJECT["optional-dependencies"].items()
    if name not in ("dev", "docs", "instruments")
}


def _modules() -> Iterator[str]:
    """Modules that the source imports, by statement or by `import_module` of a text."""
    for _, tree in source_trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif (
                isinstance(node, ast.Call)
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and ast.unparse(node.func) in ("import_module", "importlib.import_module")
            ):
                yield node.args[0].value


def _distribution(module: str) -> str:
    for prefix, distribution in SHARED.items():
        if f"{module}.".startswith(f"{prefix}."):
            return distribution
    return module.partition(".")[0].replace("_", "-")


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Distributions of others that the source imports."""
    own = {*sys.stdlib_module_names, "ratchet", "inside"}
    return {_distribution(each) for each in _modules() if each.partition(".")[0] not in own}


def _is_named(distribution: str) -> bool:
    text = NAMED.get(distribution)
    return text is not None and any(text in source for source, _ in source_trees().values())


def test_each_declared_dependency_is_imported(imported: set[str]) -> None:
    declared = RUNTIME.union(*EXTRAS.values())
    assert {each for each in declared - imported if not _is_named(each)} == set()


def test_each_import_is_declared(imported: set[str]) -> None:
    assert imported - RUNTIME.union(*EXTRAS.values()) - set(THERE_BY_THEN) == set()
