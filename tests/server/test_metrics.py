"""Metrics: what a server counts comes out as Prometheus reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families as parse

from ratchet.server.metrics import Metrics


def samples(metrics: Metrics) -> dict[str, float]:
    """Values by name and labels, as Prometheus would read them."""
    media_type, body = metrics.render()
    assert media_type.startswith("text/plain")
    return {
        " ".join([sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))]): (
            sample.value
        )
        for family in parse(body.decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_route_method_and_kind_of_status() -> None:
    metrics = Metrics()
    for status in (200, 201, 404, 429, 503):
        metrics.request("/v1/rollouts/{id}", "GET", status, 0.004)
    found = samples(metrics)
    of = "method=GET route=/v1/rollouts/{id}"
    assert found[f"ratchet_http_requests_total {of} status=2xx"] == 2
    assert found[f"ratchet_http_requests_total {of} status=4xx"] == 2
    assert found[f"ratchet_http_requests_total {of} status=5xx"] == 1
    assert found[f"ratchet_http_request_seconds_count {of}"] == 5
    assert found[f"ratchet_http_request_seconds_bucket le=0.0025 {of}"] == 0
    assert found[f"ratchet_http_request_seconds_bucket le=0.005 {of}"] == 5


def test_methods_that_clients_make_up_add_no_series() -> None:
    metrics = Metrics()
    for number in range(100):
        metrics.request("unmatched", f"METHOD{number}", 405, 0.001)
    assert metrics.render()[1].count(b"ratchet_http_requests_total{") == 1


def test_what_becomes_of_rollouts_and_spans_is_counted() -> None:
    metrics = Metrics()
    metrics.rollouts_created(3)
    metrics.rollouts_claimed(2)
    metrics.rollouts_finished(["succeeded", "queued", None, "succeeded"])
    metrics.spans_stored(100)
    metrics.spans_refused(7)
    metrics.pruned("events", 5)
    found = samples(metrics)
    counted = {"created": 3, "claimed": 2, "succeeded": 2, "queued": 1, "refused": 1}
    for event, number in counted.items():
        assert found[f"ratchet_rollouts_total event={event}"] == number
    assert found["ratchet_spans_total outcome=stored"] == 100
    assert found["ratchet_spans_total outcome=refused"] == 7
    assert found["ratchet_pruned_rows_total noun=events"] == 5


def test_calls_of_models_are_counted_with_their_first_token() -> None:
    metrics = Metrics()
    metrics.gateway_call("openai", "local", 200, 2.0, 0.3)
    metrics.gateway_call("openai", "local", 200, 2.0)
    metrics.gateway_call("openai", "local", 0, 9.0)
    found = samples(metrics)
    of = "dialect=openai upstream=local"
    assert found["ratchet_gateway_calls_total dialect=openai status=2xx upstream=local"] == 2
    assert found["ratchet_gateway_calls_total dialect=openai status=none upstream=local"] == 1
    assert found[f"ratchet_gateway_seconds_sum {of}"] == 13.0
    assert found[f"ratchet_gateway_first_token_seconds_count {of}"] == 1
    assert found[f"ratchet_gateway_first_token_seconds_sum {of}"] == 0.3
