"""What is declared is imported, and what is imported is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.packaging.source_trees import source_trees

from ratchet import _OF_TOOL, __version__

# The modules of this folder that read the whole source parse it once.
pytestmark = pytest.mark.xdist_group("source-trees")

ROOT = Path(__file__).resolve().parents[2]
SDK = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOL = tomllib.loads((ROOT / "tool" / "pyproject.toml").read_text())

SHARED = {
    "google.protobuf": "protobuf",
    "opentelemetry.context": "opentelemetry-api",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.instrumentation": "opentelemetry-instrumentation",
    "opentelemetry.propagate": "opentelemetry-api",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
    "transfer_queue": "transferqueue",
    "yaml": "pyyaml",
}
"""Which distribution a module is of, where several share a package."""

NAMED = {"httptools": '"httptools"', "psycopg": '"postgresql+psycopg"'}
"""Distributions that another library imports for us, and the text by which it is told to."""

THERE_BY_THEN = {
    "opentelemetry-instrumentation": "each package of the extra instruments brings it",
    "openinference": "imported only where a package of the extra instruments was found",
    "certifi": "trusted besides the machine's own authorities where a library has brought it",
    "httpx2": "openai brings it; else httpx is used",
    "streamlit": "the agent's page is one of Streamlit",
    "opentelemetry-exporter-otlp-proto-http": "the user's, who is told when it is missing",
}
"""Imported where something else has seen to it, and why nothing has to declare it."""


def _distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[ ;<>=!~\[]", each)[0].lower() for each in requirements}


OF_SDK = [ROOT / each for each in SDK["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]]
OWN = {"agent-ratchet", "agent-ratchet-tool"}


def _declared(pyproject: dict[str, Any]) -> set[str]:
    """Distributions that a pyproject.toml declares, extras included."""
    project = pyproject["project"]
    requirements = list(project["dependencies"])
    for name, of_extra in project["optional-dependencies"].items():
        if name not in ("dev", "docs", "instruments"):
            requirements += of_extra
    return _distributions(requirements) - OWN


DECLARED = {"sdk": _declared(SDK), "tool": _declared(TOOL)}


def _is_of_sdk(file: Path) -> bool:
    return any(file.is_relative_to(each) for each in OF_SDK)


def _modules(part: str) -> Iterator[str]:
    """Modules that a part's source imports, by statement or by `import_module` of a text."""
    for file, (_, tree) in source_trees().items():
        if _is_of_sdk(file) is not (part == "sdk"):
            continue
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


def _imported(part: str) -> set[str]:
    """Distributions of others that a part's source imports."""
    own = {*sys.stdlib_module_names, "ratchet", "inside", "ratchet_recording_hook"}
    return {_distribution(each) for each in _modules(part) if each.partition(".")[0] not in own}


def _is_named(distribution: str) -> bool:
    text = NAMED.get(distribution)
    return text is not None and any(text in source for source, _ in source_trees().values())


@pytest.mark.parametrize("part", DECLARED)
def test_each_declared_dependency_is_imported(part: str) -> None:
    unused = DECLARED[part] - _imported(part)
    assert {each for each in unused if not _is_named(each)} == set()


@pytest.mark.parametrize("part", DECLARED)
def test_each_import_is_declared(part: str) -> None:
    assert _imported(part) - DECLARED[part] - set(THERE_BY_THEN) == set()


def test_the_sdk_and_the_tool_are_of_one_version_and_the_sdk_offers_the_tools_extras() -> None:
    tool, sdk = TOOL["project"], SDK["project"]
    assert f"agent-ratchet[jinja,schema]=={__version__}" in tool["dependencies"]
    offered = sdk["optional-dependencies"]
    assert offered["tool"] == [f"agent-ratchet-tool=={__version__}"]
    for name in tool["optional-dependencies"]:
        assert offered[name] == [f"agent-ratchet-tool[{name}]=={__version__}"]


def test_each_name_of_the_tool_in_the_package_has_an_entry_point() -> None:
    assert set(TOOL["project"]["entry-points"]["ratchet.tool"]) == set(_OF_TOOL)


def test_the_readme_says_what_each_extra_is_for() -> None:
    section = (
        (ROOT / "README.md").read_text().partition("\n## Installing\n")[2].partition("\n## ")[0]
    )
    named = set(re.findall(r"\[(\w+)\]`", section))
    assert named == set(SDK["project"]["optional-dependencies"]) - {"dev", "docs"}
