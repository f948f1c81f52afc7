"""Tracing that a repository has already, so that it is joined and not doubled."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ratchet.wire.facts import Manifest, Place, TracingUse
from ratchet.wire.looking.files import RepositoryFiles
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.program import Program
from ratchet.wire.looking.syntax import (
    CodeModule,
    Invocation,
    NameUse,
    TextValue,
    chain_of,
    last_name,
)


class Tracer(msgspec.Struct, frozen=True):
    """A library that records traces."""

    name: str
    python: tuple[str, ...] = ()
    """Modules; their submodules belong to it too."""
    javascript: tuple[str, ...] = ()
    """Packages; one that ends with `/` or `-` stands for all that begin so."""
    distributions: tuple[str, ...] = ()
    """In Python's index; one that ends with `-` stands for all that begin so."""
    global_calls: str = ""
    """Pattern of calls that set OpenTelemetry's global provider."""


TRACERS = (
    Tracer("langfuse", ("langfuse",), ("langfuse", "langfuse-", "@langfuse/"), ("langfuse",)),
    Tracer("langsmith", ("langsmith",), ("langsmith",), ("langsmith",)),
    Tracer(
        "phoenix",
        ("phoenix",),
        ("@arizeai/phoenix-",),
        ("arize-phoenix", "arize-phoenix-"),
        r"^phoenix\.otel\.register$|^@arizeai/phoenix-otel\.register$",
    ),
    Tracer(
        "openinference", ("openinference",), ("@arizeai/openinference-",), ("openinference-",), ""
    ),
    Tracer(
        "logfire", ("logfire",), ("logfire", "@pydantic/logfire"), ("logfire",), r"\.configure$"
    ),
    Tracer("sentry", ("sentry_sdk",), ("@sentry/",), ("sentry-sdk",), r"^@sentry/\w+\.init$"),
    Tracer(
        "openllmetry",
        ("traceloop",),
        ("@traceloop/",),
        ("traceloop-sdk",),
        r"Traceloop\.init$|\.initialize$",
    ),
    Tracer("mlflow", ("mlflow",), (), ("mlflow",)),
    Tracer("opik", ("opik",), ("opik",), ("opik",)),
    Tracer("weave", ("weave",), ("weave",), ("weave",)),
    Tracer("agentops", ("agentops",), ("agentops",), ("agentops",), r"^agentops\.init$"),
    Tracer("openlit", ("openlit",), ("openlit",), ("openlit",), r"^openlit\.init$"),
    Tracer("braintrust", ("braintrust",), ("braintrust",), ("braintrust",)),
    Tracer("helicone", ("helicone",), ("@helicone/",), ("helicone",)),
    Tracer("datadog", ("ddtrace",), ("dd-trace",), ("ddtrace",)),
    Tracer("newrelic", ("newrelic",), ("newrelic",), ("newrelic",)),
    Tracer(
        "opentelemetry",
        ("opentelemetry", "azure.monitor.opentelemetry"),
        ("@opentelemetry/", "@vercel/otel"),
        ("opentelemetry-",),
        r"set_tracer_provider$|setGlobalTracerProvider$|NodeSDK\.start$|TracerProvider\.register$"
        r"|registerOTel$|configure_azure_monitor$",
    ),
)
"""Libraries of tracing; those that others build on come last."""

_AGENTS_SDK_OFF = re.compile(r"set_tracing_disabled|setTracingDisabled")
_LAUNCHERS = (
    ("opentelemetry", re.compile(r"\bopentelemetry-instrument\b")),
    ("datadog", re.compile(r"\bddtrace-run\b")),
    ("newrelic", re.compile(r"\bnewrelic-admin\s+run-program\b")),
)


def find_tracing(
    names: Names,
    files: RepositoryFiles,
    manifests: tuple[Manifest, ...],
    dead: dict[str, str],
    live: frozenset[str],
) -> Iterator[TracingUse]:
    """Tracing by library, at its first place.

    Args:
        names: Names of the program.
        files: Files of the repository.
        manifests: What it depends on.
        dead: Files that are not the agent's.
        live: Files that the agent consists of.
    """
    program = names.program
    found: dict[str, TracingUse] = {}
    for path in program.importing(lambda name: _tracer_of(name) is not None):
        if path in dead or program.standing(path).kind != "own":
            continue
        module = program.module(path)
        if module is not None:
            for one in _of_module(names, module):
                _keep(found, one)
    for path in sorted(live):
        module = program.module(path)
        if module is not None:
            for one in _built_in(program, module):
                _keep(found, one)
    for one in (*_launched(files), *_declared(files, manifests)):
        if one.name not in found:
            found[one.name] = one
    yield from sorted(found.values(), key=lambda one: (-one.confidence, one.place))


def _keep(found: dict[str, TracingUse], one: TracingUse) -> None:
    """The first use, or the one that sets the global provider."""
    known = found.get(one.name)
    if known is None or (one.provider and not known.provider):
        found[one.name] = one


def _tracer_of(name: str) -> Tracer | None:
    for tracer in TRACERS:
        for module in tracer.python:
            if name == module or name.startswith(module + "."):
                return tracer
        for package in tracer.javascript:
            if name == package or name.startswith(
                package if package.endswith(("/", "-")) else package + "/"
            ):
                return tracer
    return None


def _of_module(names: Names, module: CodeModule) -> Iterator[TracingUse]:
    for one in module.imports:
        tracer = _tracer_of(one.module) or _tracer_of(f"{one.module}.{one.name}")
        if tracer is None or names.program.resolve(module, one) is not None:
            continue
        provider = _provider(names, module, tracer)
        reason = f"{one.module} is imported"
        if provider:
            reason += f"; the global tracer provider is set at {provider}"
        yield TracingUse(tracer.name, Place(module.path, one.line), provider, 0.95, reason)


def _provider(names: Names, module: CodeModule, tracer: Tracer) -> Place | None:
    if not tracer.global_calls:
        return None
    for scope in module.scope.walk():
        for call in scope.invocations:
            tried = [*names.outside_names(call, scope), chain_of(call.function)]
            if any(re.search(tracer.global_calls, one) for one in tried) and not _refuses(call):
                return Place(module.path, call.line)
    return None


def _refuses(call: Invocation) -> bool:
    """Whether the call says that it leaves the global provider alone."""
    given = call.keywords.get("set_global_tracer_provider")
    return isinstance(given, NameUse) and given.name == "False"


def _built_in(program: Program, module: CodeModule) -> Iterator[TracingUse]:
    """Tracing that a framework does by itself, or that a call of it asks for."""
    line = program.frameworks_of(module).get("openai-agents")
    if line is not None:
        off = any(
            _AGENTS_SDK_OFF.search(one.text) or "OPENAI_AGENTS_DISABLE_TRACING" in one.text
            for one in program.modules
        )
        if not off:
            reason = "the Agents SDK records each run by default"
            yield TracingUse("openai-agents", Place(module.path, line), None, 0.9, reason)
    for scope in module.scope.walk():
        for call in scope.invocations:
            if "experimental_telemetry" in call.keywords:
                reason = "experimental_telemetry writes spans to the global tracer provider"
                place = Place(module.path, call.line)
                yield TracingUse("vercel-ai-sdk", place, None, 0.9, reason)
            if last_name(call.function) in ("getenv", "get", "setdefault") and call.arguments:
                first = call.arguments[0]
                if isinstance(first, TextValue) and first.value in (
                    "LANGCHAIN_TRACING_V2",
                    "LANGSMITH_TRACING",
                ):
                    reason = f"it is switched by the environment variable {first.value}"
                    place = Place(module.path, call.line)
                    yield TracingUse("langsmith", place, None, 0.8, reason)


def _launched(files: RepositoryFiles) -> Iterator[TracingUse]:
    """Programs that are started under a tracer."""
    for path in files.starting():
        text = files.text(path) or ""
        for name, pattern in _LAUNCHERS:
            started = pattern.search(text)
            if started:
                place = Place(path, text.count("\n", 0, started.start()) + 1)
                reason = f"the program is started by {started[0]}, which sets the global provider"
                provider = place if name == "opentelemetry" else None
                yield TracingUse(name, place, provider, 0.9, reason)


def _declared(files: RepositoryFiles, manifests: tuple[Manifest, ...]) -> Iterator[TracingUse]:
    """Libraries that are installed and that no code of the agent imports."""
    for manifest in manifests:
        for wanted in manifest.dependencies:
            for tracer in TRACERS:
                listed = (*tracer.distributions, *tracer.javascript)
                if any(
                    wanted == one or (one.endswith(("-", "/")) and wanted.startswith(one))
                    for one in listed
                ):
                    text = files.text(manifest.path) or ""
                    place = Place(manifest.path, _line_of(wanted, text))
                    reason = f"{wanted} is a dependency, which no code of the agent imports"
                    yield TracingUse(tracer.name, place, None, 0.4, reason)


def _line_of(word: str, text: str) -> int:
    found = re.search(rf"^.*\b{re.escape(word)}\b", text, re.M | re.I)
    return text.count("\n", 0, found.start()) + 1 if found else 1
