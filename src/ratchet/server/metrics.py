"""Prometheus metrics of the server."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from ratchet.types import RolloutStatus

ANSWER_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Histogram buckets of the server's own latency, in seconds."""

MODEL_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Histogram buckets of model latency, in seconds."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Request(NamedTuple):
    total: Counter
    seconds: Histogram


class _Call(NamedTuple):
    total: Counter
    seconds: Histogram
    first_token: Histogram


class Metrics:
    """Counters of a server, in its own registry.

    Label values come from fixed tables (routes, configured upstreams), never from client input,
    since each value is a series that stays in memory.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter(
            "http_requests", "Served requests.", "route", "method", "status"
        )
        self._request_s = self._histogram(
            "http_request_seconds", "From request to response.", ANSWER_BUCKETS_S, "route", "method"
        )
        self._rollouts = self._counter(
            "rollouts", "Rollouts created, claimed, and reported on, by status.", "event"
        )
        self._spans = self._counter("spans", "Spans stored and refused.", "outcome")
        self._calls = self._counter(
            "gateway_calls", "Model calls.", "dialect", "upstream", "status"
        )
        self._call_s = self._histogram(
            "gateway_seconds",
            "From call to the end of the response.",
            MODEL_BUCKETS_S,
            "dialect",
            "upstream",
        )
        self._first_token_s = self._histogram(
            "gateway_first_token_seconds",
            "From call to the first token of the response.",
            MODEL_BUCKETS_S,
            "dialect",
            "upstream",
        )
        self._tokens = self._counter(
            "gateway_token_calls",
            "Model calls whose tokens were kept, or dropped by reason.",
            "outcome",
        )
        self._adapters = self._counter(
            "gateway_adapters",
            "Trained adapters that upstreams loaded or failed to load, and live calls that got the"
            " agent's own model instead.",
            "outcome",
        )
        self._recording_waits = self._histogram(
            "gateway_recording_wait_seconds",
            "How long calls waited for a place among the recordings.",
            ANSWER_BUCKETS_S,
        )
        self._spooled = self._counter(
            "gateway_spooled_recordings", "Recordings that went to disk before they were stored."
        )
        self._pruned = self._counter("pruned_rows", "Rows deleted by retention.", "noun")
        ProcessCollector(registry=self.registry)
        # Looking a child up by its labels costs as much as counting, so children are cached.
        self._request_of: dict[tuple[str, str, int], _Request] = {}
        self._call_of: dict[tuple[str, str, int], _Call] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a response.

        Args:
            route: The route's template.
            method: HTTP method, as the client sent it.
            status: HTTP status.
            seconds: From the request to the end of the response.
        """
        if method not in _METHODS:
            method = "other"
        kind = (route, method, status // 100)
        series = self._request_of.get(kind)
        if series is None:
            series = self._request_of[kind] = _Request(
                self._requests.labels(route, method, f"{status // 100}xx"),
                self._request_s.labels(route, method),
            )
        series.total.inc()
        series.seconds.observe(seconds)

    def rollouts_created(self, count: int) -> None:
        """Count new rollouts."""
        self._rollouts.labels("created").inc(count)

    def rollouts_claimed(self, count: int) -> None:
        """Count claimed attempts."""
        self._rollouts.labels("claimed").inc(count)

    def rollouts_finished(self, statuses: Iterable[RolloutStatus | None]) -> None:
        """Count reported outcomes of attempts.

        Args:
            statuses: New status of each rollout: a final one, or `queued` when it is retried; None
                for an outcome that was refused.
        """
        for status, count in Counted(statuses).items():
            self._rollouts.labels(status or "refused").inc(count)

    def spans_stored(self, count: int, *, late: int = 0) -> None:
        """Count committed spans, and spans of calls that outlasted their rollouts."""
        self._spans.labels("stored").inc(count)
        if late:
            self._spans.labels("late").inc(late)

    def spans_refused(self, count: int) -> None:
        """Count spans refused as malformed or beyond the limit."""
        self._spans.labels("refused").inc(count)

    def tokens(self, outcome: str) -> None:
        """Count a model call: `kept`, or the reason why its tokens were dropped."""
        self._tokens.labels(outcome).inc()

    def adapter(self, outcome: str) -> None:
        """Count an adapter: `loaded` or `failed` at an upstream, or `replaced` in a live call."""
        self._adapters.labels(outcome).inc()

    def gateway_call(
        self,
        dialect: str,
        upstream: str,
        status: int,
        seconds: float,
        first_token_s: float | None = None,
    ) -> None:
        """Count a model call.

        Args:
            dialect: API dialect, such as `openai`.
            upstream: Configured name of the upstream.
            status: HTTP status of the response; 0 when there was none.
            seconds: From the call to the end of the response.
            first_token_s: Seconds from the call to the first token, if known.
        """
        kind = (dialect, upstream, status // 100)
        series = self._call_of.get(kind)
        if series is None:
            series = self._call_of[kind] = _Call(
                self._calls.labels(dialect, upstream, f"{status // 100}xx" if status else "none"),
                self._call_s.labels(dialect, upstream),
                self._first_token_s.labels(dialect, upstream),
            )
        series.total.inc()
        series.seconds.observe(seconds)
        if first_token_s is not None:
            series.first_token.observe(first_token_s)

    def recording_wait(self, seconds: float) -> None:
        """Record how long a call waited for a place among the recordings."""
        self._recording_waits.observe(seconds)

    def recordings_spooled(self, count: int) -> None:
        """Count recordings that went to disk."""
        self._spooled.inc(count)

    def pruned(self, noun: str, count: int) -> None:
        """Count rows deleted by retention."""
        self._pruned.labels(noun).inc(count)

    def watch(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        """Register a gauge that is read at each scrape.

        Args:
            name: Name without prefix, such as `pending_spans`.
            meaning: Help text.
            read: Returns the value.
        """
        Gauge(f"ratchet_{name}", meaning, registry=self.registry).set_function(read)

    def render(self) -> tuple[str, bytes]:
        """Media type and body of a Prometheus scrape."""
        return CONTENT_TYPE_LATEST, generate_latest(self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"ratchet_{name}", meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, meaning: str, bounds: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"ratchet_{name}", meaning, labels, buckets=bounds, registry=self.registry)
