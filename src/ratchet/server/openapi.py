"""OpenAPI description, generated from the route table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.server.http_problems import TITLES, FieldError
from ratchet.server.routes import ApiRoute

_REF = "#/components/schemas/{name}"

_PROBLEM = {
    "title": "HttpProblem",
    "type": "object",
    "description": "An error, as defined by RFC 9457.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {"type": "array", "items": {"$ref": _REF.format(name="FieldError")}},
        "error": {
            "type": "object",
            "description": "The same error, in the form that providers' SDKs parse.",
        },
    },
}

_STATUS = {
    "title": "Status",
    "type": "object",
    "description": "The error as a google.rpc.Status, in the encoding of the request.",
}

_OTLP: dict[str, Any] = {
    "operationId": "export_spans",
    "summary": "Store OpenTelemetry spans",
    "description": "OTLP/HTTP: the body is an ExportTraceServiceRequest. The response follows the"
    " commit, and says which spans were refused, and why.\n\nNeeds one of: admin, ingest; or an"
    " attempt's token.",
    "tags": ["traces"],
    "security": [{"bearer": []}, {"x-api-key": []}],
    "x-scopes": ["admin", "ingest"],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "responses": {
        "200": {
            "description": "Done",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **{
            str(status): {
                "description": TITLES[status],
                "content": {
                    "application/json": {"schema": _STATUS},
                    "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
                    "application/problem+json": {
                        "schema": {"$ref": _REF.format(name="HttpProblem")}
                    },
                },
            }
            for status in (400, 401, 403, 408, 413, 415, 429, 503)
        },
    },
}
"""The only route that is not an `ApiRoute`, since it takes protobuf."""

_REFUSALS = (400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 503)


def describe(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the routes."""
    types = [t for route in routes for t in (route.body, route.answers) if t is not None]
    fields = [
        (route, field)
        for route in routes
        if route.query is not None
        for field in msgspec.structs.fields(route.query)
    ]
    schema_types = [*types, FieldError, *(field.type for _, field in fields)]
    shapes, components = msgspec.json.schema_components(schema_types, ref_template=_REF)
    shape_of = dict(zip(map(id, types), shapes, strict=False))
    field_shapes = dict(
        zip(((id(r), f.name) for r, f in fields), shapes[len(types) + 1 :], strict=True)
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(
            route, shape_of, field_shapes
        )
    paths.setdefault("/v1/traces", {})["post"] = _OTLP
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ratchet",
            "version": __version__,
            "description": "Rollouts, resources, traces and releases of LLM agents.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "HttpProblem": _PROBLEM},
            "responses": {
                str(status): {
                    "description": TITLES[status],
                    "content": {
                        "application/problem+json": {
                            "schema": {"$ref": _REF.format(name="HttpProblem")}
                        }
                    },
                }
                for status in _REFUSALS
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _operation(
    route: ApiRoute, shape_of: dict[int, Any], field_shapes: dict[tuple[int, str], Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {
            str(route.status): _good(route, shape_of),
            **{
                str(status): {"$ref": f"#/components/responses/{status}"}
                for status in _REFUSALS
                if str(status) != str(route.status)
            },
        },
    }
    if route.description:
        operation["description"] = route.description
    if route.scopes:
        one_of = ", ".join(sorted(route.scopes | {"admin"}))
        operation["security"] = [{"bearer": []}, {"x-api-key": []}]
        operation["x-scopes"] = sorted(route.scopes | {"admin"})
        operation["description"] = f"{route.description}\n\nNeeds one of: {one_of}.".strip()
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.parameters
    ]
    if route.query is not None:
        parameters += [
            {
                "name": field.encode_name,
                "in": "query",
                "required": field.required,
                "schema": _default(field, field_shapes[id(route), field.name]),
            }
            for field in msgspec.structs.fields(route.query)
        ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": shape_of[id(route.body)]}},
        }
    return operation


def _good(route: ApiRoute, shape_of: dict[int, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": TITLES.get(route.status, "Done")}
    if route.answers is not None:
        good["content"] = {route.media_type: {"schema": shape_of[id(route.answers)]}}
    elif route.media_type != "application/json":
        good["content"] = {route.media_type: {"schema": {"type": "string"}}}
    return good


def _default(field: msgspec.structs.FieldInfo, shape: dict[str, Any]) -> dict[str, Any]:
    if field.default in (msgspec.NODEFAULT, None):
        return shape
    return {**shape, "default": field.default}
