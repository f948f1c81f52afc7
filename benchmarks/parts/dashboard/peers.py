"""The same traces in Phoenix and MLflow, and requests of the kinds that their pages send.

Each server runs in a process of its own, on a new SQLite file, and gets the same OTLP requests. Of
a trace all have what their page of one trace asks for: ours and Phoenix' the tree without the
contents of spans, MLflow's with them. MLflow's page of one span asks for nothing more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.ingest import free_port, mlflow_server, ratchet_server
from dashboard.seed import EVERY, SPANS, WEEK_S, large_trace, trace_of
from environments import bin_of
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_load import pairs

from ratchet._http import httpx2
from ratchet.types import Span

PHOENIX_VERSION = "20.26.1"

LARGE, LARGE_SPANS = "c" * 32, 1_000
"""Trace whose page is asked for: Phoenix shows a thousand spans of one."""

LISTED = 100
"""Traces on a page of a list."""

AT_ONCE = 20
"""Traces in one OTLP request."""

FAILED = {"unset": 0, "ok": 1, "error": 2}

Ask = Callable[[int], int]
"""Sends the n-th request of a page, reads the whole answer, and says how much is in it."""


def measured_peers(
    traces: int, requests: int, note: Callable[[str], None]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Fill all three servers and time their pages.

    Args:
        traces: Number of traces, of ten spans each.
        requests: Requests for each page, after one that warms up.
        note: Told of progress.

    Returns:
        By peer and page how many times as long as ours it takes, and the 95th percentiles in
        milliseconds by server and page.
    """
    now = time.time()
    taken = {}
    for name, opened in (("ratchet", ours), ("phoenix", phoenix), ("mlflow", mlflow)):
        with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as server:
            begun = time.perf_counter()
            for body in otlp_requests(traces, now):
                server.send(body)
            server.settled(SPANS * traces + LARGE_SPANS)
            note(f"{name}: {traces} traces in {time.perf_counter() - begun:.0f} s")
            pages = server.pages(now)
            check(name, pages, traces)
            taken[name] = {page: p95(ask, requests) for page, ask in pages.items()}
            note(f"{name}: {taken[name]}")
    ratios = {
        name: {page: round(ms / taken["ratchet"][page], 2) for page, ms in found.items()}
        for name, found in taken.items()
        if name != "ratchet"
    }
    return ratios, taken


def check(name: str, pages: Mapping[str, Ask], traces: int) -> None:
    """End the benchmark if a page's answer lacks what the traces have."""
    wanted = {
        "traces": min(LISTED, traces + 1),
        "traces_failed": min(LISTED, traces // EVERY),
        "trace": LARGE_SPANS,
    }
    for page, count in wanted.items():
        found = pages[page](0)
        if found < count:
            raise SystemExit(f"{name} answers {page} with {found} of {count}")


def p95(ask: Ask, requests: int) -> float:
    """95th percentile of a page's requests, in milliseconds."""
    ask(0)
    times = []
    for number in range(1, requests + 1):
        begun = time.perf_counter()
        ask(number)
        times.append((time.perf_counter() - begun) * 1000)
    return round(sorted(times)[int(0.95 * (len(times) - 1))], 1)


def otlp_requests(traces: int, now: float) -> Iterator[bytes]:
    """The traces as OTLP requests; of a failed one the root has failed too."""
    for first in range(1, traces + 1, AT_ONCE):  # an id of zeros alone is none
        numbers = range(first, min(first + AT_ONCE, traces + 1))
        some = [list(trace_of(n, now - WEEK_S * (traces - n) / traces)) for n in numbers]
        yield _request([span for spans in some for span in _with_failed_root(spans)])
    yield _request(list(large_trace(LARGE, LARGE_SPANS, now - 60)))


def _with_failed_root(spans: list[Span]) -> list[Span]:
    failed = any(span.status == "error" for span in spans)
    return [msgspec.structs.replace(spans[0], status="error"), *spans[1:]] if failed else spans


def _request(spans: list[Span]) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(pairs({"service.name": "agent"}))
    scope = resource.scope_spans.add()
    for span in spans:
        made = scope.spans.add()
        made.trace_id = bytes.fromhex(span.trace_id)
        made.span_id = bytes.fromhex(span.span_id)
        made.parent_span_id = bytes.fromhex(span.parent_id or "")
        made.name = span.name
        made.start_time_unix_nano, made.end_time_unix_nano = span.start_ns, span.end_ns
        made.status.code = FAILED[span.status]
        made.attributes.extend(pairs(span.attributes))
    return request.SerializeToString()


class Server:
    """A server that takes OTLP and answers the requests of its pages."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.http = httpx2.Client(base_url=url, timeout=120)
        self._headers = {"content-type": "application/x-protobuf", **(headers or {})}

    def send(self, body: bytes) -> None:
        """Send one OTLP request."""
        self.http.post("/v1/traces", content=body, headers=self._headers).raise_for_status()

    def settled(self, spans: int) -> None:
        """Wait until all spans can be read."""

    def pages(self, now: float) -> dict[str, Ask]:
        """Requests by page."""
        raise NotImplementedError

    def get(self, path: str) -> Any:
        """A GET whose answer must be JSON."""
        return self.http.get(path).raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        """A POST whose answer must be JSON."""
        return self.http.post(path, json=body).raise_for_status().json()


class OurServer(Server):
    """Ratchet."""

    def pages(self, now: float) -> dict[str, Ask]:
        """As benchmarks/dashboard.py asks."""
        return {
            # Other hours each time: none of the answers is kept.
            "home": lambda n: len(self.get(f"/v1/overview?hours={168 + n / 1000}")["agents"]),
            "traces": lambda n: len(self.get("/v1/traces?limit=100")["traces"]),
            "traces_failed": lambda n: len(self.get("/v1/traces?limit=100&errors=true")["traces"]),
            "trace": lambda n: len(self.get(f"/v1/traces/{LARGE}/skeleton")["spans"]),
            "span": lambda n: len(self.get(f"/v1/traces/{LARGE}/spans/{n + 1:016x}")["attributes"]),
        }


@contextmanager
def ours(folder: Path) -> Iterator[Server]:
    """`ratchet serve` on a new file."""
    with ratchet_server(folder) as (_, port, _file):
        yield OurServer(f"http://127.0.0.1:{port}")


class PhoenixServer(Server):
    """Phoenix: its pages ask over GraphQL."""

    def ask(self, query: str, **variables: Any) -> Any:
        """Send a query; an error of it ends the benchmark."""
        found = self.post("/graphql", {"query": query, "variables": variables})
        if found.get("errors"):
            raise SystemExit(f"Phoenix refuses the query: {found['errors'][0]['message']}")
        return found["data"]

    def project(self) -> dict[str, Any]:
        """The project that the traces are in."""
        query = "{ projects(first: 10) { edges { node { id name recordCount } } } }"
        nodes = [edge["node"] for edge in self.ask(query)["projects"]["edges"]]
        return max(nodes, key=lambda node: node["recordCount"])

    def settled(self, spans: int) -> None:
        """It stores what it has accepted later."""
        deadline = time.monotonic() + 600
        while (found := self.project()["recordCount"]) < spans:
            if time.monotonic() > deadline:
                raise SystemExit(f"Phoenix has stored {found} of {spans} spans")
            time.sleep(0.5)

    def pages(self, now: float) -> dict[str, Ask]:
        """What its pages show: projects with figures, root spans, the tree, one span."""
        id = self.project()["id"]
        spans = self.ask(SPAN_IDS, id=id, trace=LARGE)["node"]["trace"]["spans"]["edges"]
        ids = [edge["node"]["id"] for edge in spans]

        def week(n: int) -> dict[str, str]:
            begin = time.gmtime(now - WEEK_S - n)
            return {"start": time.strftime("%Y-%m-%dT%H:%M:%SZ", begin)}

        def roots(condition: str) -> int:
            found = self.ask(ROOTS, id=id, condition=f"parent_id is None{condition}")
            return len(found["node"]["spans"]["edges"])

        def tree() -> int:
            return len(self.ask(TREE, id=id, trace=LARGE)["node"]["trace"]["spans"]["edges"])

        return {
            "home": lambda n: len(self.ask(PROJECTS, range=week(n))["projects"]["edges"]),
            "traces": lambda n: roots(""),
            "traces_failed": lambda n: roots(" and status_code == 'ERROR'"),
            "trace": lambda n: tree(),
            "span": lambda n: len(self.ask(SPAN, id=ids[n])["node"]["attributes"]),
        }


PROJECTS = """query ($range: TimeRange!) { projects(first: 50) { edges { node { id name endTime
  traceCount(timeRange: $range) latencyMsQuantile(probability: 0.5, timeRange: $range)
  tokenCountTotal(timeRange: $range) costSummary(timeRange: $range) { total { cost } } } } } }"""
ROOTS = """query ($id: ID!, $condition: String) { node(id: $id) { ... on Project {
  spans(first: 100, sort: {col: startTime, dir: desc}, filterCondition: $condition) { edges { node {
    id name spanKind statusCode startTime latencyMs tokenCountTotal cumulativeTokenCountTotal
    spanAnnotationSummaries { name meanScore } trace { id traceId numSpans
      costSummary { total { cost } } } } } pageInfo { hasNextPage endCursor } } } } }"""
TREE = """query ($id: ID!, $trace: ID!) { node(id: $id) { ... on Project { trace(traceId: $trace) {
  id numSpans latencyMs costSummary { total { cost } } spans(first: 1000) { edges { node {
    id spanId name spanKind statusCode startTime endTime parentId latencyMs tokenCountTotal
    costSummary { total { cost } } spanAnnotationSummaries { name meanScore } } } } } } } }"""
SPAN = """query ($id: ID!) { node(id: $id) { ... on Span { id spanId name spanKind statusCode
  statusMessage startTime endTime latencyMs tokenCountTotal attributes input { value }
  output { value } events { name message timestamp } } } }"""
SPAN_IDS = """query ($id: ID!, $trace: ID!) { node(id: $id) { ... on Project {
  trace(traceId: $trace) { spans(first: 1000) { edges { node { id } } } } } } }"""


@contextmanager
def phoenix(folder: Path) -> Iterator[Server]:
    """Phoenix on a new file."""
    command = bin_of("phoenix", f"arize-phoenix=={PHOENIX_VERSION}") / "phoenix"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [str(command), "serve"], cwd=folder, env=environment, stdout=log, stderr=log,
        start_new_session=True,
    )  # fmt: skip
    try:
        server = PhoenixServer(url)
        deadline = time.monotonic() + 120
        while not _answers(server):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"Phoenix did not start:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        log.close()


def _answers(server: Server) -> bool:
    try:
        return server.http.get("/healthz").status_code == 200
    except httpx2.TransportError:
        return False


class MlflowServer(Server):
    """MLflow: its pages ask over its AJAX API."""

    def __init__(self, url: str, experiment: str) -> None:
        super().__init__(url, {"x-mlflow-experiment-id": experiment})
        self._experiment = experiment

    def pages(self, now: float) -> dict[str, Ask]:
        """What its pages show: the newest traces, failed ones, and one with its spans."""
        place = {"type": "MLFLOW_EXPERIMENT"}
        place["mlflow_experiment"] = {"experiment_id": self._experiment}  # type: ignore[assignment]
        search = {"locations": [place], "max_results": 100, "order_by": ["timestamp_ms DESC"]}
        path, failed = "/ajax-api/3.0/mlflow/traces/search", "attributes.status = 'ERROR'"
        whole = f"/ajax-api/3.0/mlflow/traces/get?trace_id=tr-{LARGE}"
        return {
            "traces": lambda n: len(self.post(path, search)["traces"]),
            "traces_failed": lambda n: len(self.post(path, {**search, "filter": failed})["traces"]),
            "trace": lambda n: len(self.get(whole)["trace"]["spans"]),
        }


@contextmanager
def mlflow(folder: Path) -> Iterator[Server]:
    """MLflow on a new file."""
    with mlflow_server(folder) as (_, port, _file, experiment):
        yield MlflowServer(f"http://127.0.0.1:{port}", experiment)
