"""What schemathesis makes of the OpenAPI description: everything is answered, never by 5xx."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from ratchet.server.api import GROUPS
from tests.serving import RunningServer

pytestmark = pytest.mark.xdist_group("schema")  # what they share is made once

EXAMPLES = 25 if os.environ.get("RATCHET_LONG_FAULTS") else 2
"""Requests for each route."""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The description of a running server."""
    import schemathesis  # a second of imports, for these tests alone

    server = RunningServer(f"sqlite:///{tmp_path_factory.mktemp('described')}/ratchet.db")
    yield schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    server.stop()


ROUTES = [
    (route.method, route.path)
    for group in GROUPS
    for route in group.routes
    if route.path != "/v1/events"  # a stream without end
]


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{m} {p}" for m, p in ROUTES])
def test_no_request_fails_the_server(described: Any, method: str, path: str, mode: str) -> None:
    from schemathesis import GenerationMode, checks
    from schemathesis.core.errors import UnsupportedSchema
    from schemathesis.specs.openapi import checks as openapi_checks

    requests = described[path][method].as_strategy(generation_mode=GenerationMode(mode))
    wanted = [
        checks.not_a_server_error,
        openapi_checks.status_code_conformance,
        openapi_checks.content_type_conformance,
        openapi_checks.response_schema_conformance,
    ]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        database=None,
    )
    @given(case=requests)
    def try_it(case: Any) -> None:
        # Nobody waits for work here.
        for part in (case.body, case.query):
            if isinstance(part, dict):
                part.pop("wait_s", None)
        case.call_and_validate(checks=wanted)

    if mode == "negative" and path in TAKES_NOTHING and method != "POST":
        with pytest.raises(Unsatisfiable):
            try_it()
        return
    for again in range(DRAWS):
        try:
            return try_it()
        except UnsupportedSchema:
            # A mutation of the schema that it cannot draw from; other draws mutate otherwise.
            if again == DRAWS - 1:
                raise


DRAWS = 5
"""How often schemathesis may begin anew when it has made a schema that is too much for itself."""

TAKES_NOTHING = (
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/v1/session",
    "/v1/login/oidc/callback",
)
"""Nothing can be wrong with a request that takes nothing."""


def test_other_methods_are_refused_with_those_that_are_described(server: RunningServer) -> None:
    with server.client() as http:
        paths = http.get("/openapi.json").json()["paths"]
        for path, methods in paths.items():
            answer = http.request("OPTIONS", path.replace("{", "").replace("}", ""))
            allowed = answer.headers.get("allow", "").lower().split(", ")
            assert (path, answer.status_code, set(allowed)) == (path, 405, set(methods))
