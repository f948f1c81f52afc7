"""Derive `github_api.json` from GitHub's own OpenAPI description.

    npm install @octokit/openapi
    python tests/ship/forges/github_facts.py node_modules/@octokit/openapi

What is kept are names, types, and which fields are required, of the operations that are used; no
description and no example. Optional fields of responses are left out, unless they are read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FACTS = Path(__file__).with_name("github_api.json")

OPERATIONS = {
    "/repos/{owner}/{repo}/branches/{branch}": ["get"],
    "/repos/{owner}/{repo}/pulls": ["get", "post"],
    "/repos/{owner}/{repo}/pulls/{pull_number}": ["get", "patch"],
    "/repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers": ["post"],
    "/repos/{owner}/{repo}/issues/{issue_number}/comments": ["get", "post"],
    "/repos/{owner}/{repo}/issues/{issue_number}/labels": ["post"],
    "/repos/{owner}/{repo}/installation": ["get"],
    "/app/installations/{installation_id}/access_tokens": ["post"],
}
KEPT = """
    type required properties items enum nullable oneOf anyOf allOf format pattern minLength
    maxLength minItems maxItems minimum maximum additionalProperties default
"""
READ = {"body", "name", "expires_at"}
"""Optional fields of responses that are read."""


def facts(folder: Path) -> dict[str, Any]:
    """The facts, as a small OpenAPI document of their own."""
    whole = json.loads((folder / "generated" / "api.github.com.json").read_text())
    version = json.loads((folder / "package.json").read_text())["version"]
    schemas: dict[str, Any] = {}

    def resolved(value: Any) -> Any:
        while isinstance(value, dict) and "$ref" in value:
            found = whole
            for part in value["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            value = found
        return value

    def schema(value: dict[str, Any], response: bool) -> Any:
        if reference := value.get("$ref"):
            name = reference.rpartition("/")[2] + ("" if response else ".request")
            if name not in schemas:
                schemas[name] = {}  # it may contain itself
                schemas[name] = schema(resolved(value), response)
            return {"$ref": f"#/components/schemas/{name}"}
        made: dict[str, Any] = {}
        for key in KEPT.split():
            if key not in value:
                continue
            found = value[key]
            if key == "properties":
                required = set(value.get("required", ()))
                found = {
                    name: schema(each, response)
                    for name, each in found.items()
                    if not response or name in required | READ
                }
            elif key in ("items", "additionalProperties") and isinstance(found, dict):
                found = schema(found, response)
            elif key in ("oneOf", "anyOf", "allOf"):
                found = [schema(each, response) for each in found]
            made[key] = found
        return made

    def content(value: dict[str, Any], response: bool) -> Any:
        kinds = resolved(value).get("content", {})
        kind = kinds.get("application/json")
        return {"application/json": {"schema": schema(kind["schema"], response)}} if kind else None

    paths: dict[str, Any] = {}
    for path, methods in OPERATIONS.items():
        for method in methods:
            given = whole["paths"][path][method]
            made: dict[str, Any] = {"responses": {}}
            made["parameters"] = [
                {
                    "name": each["name"],
                    "in": each["in"],
                    "required": each.get("required", False),
                    "schema": schema(each["schema"], False),
                }
                for each in map(resolved, given.get("parameters", ()))
            ]
            if "requestBody" in given:
                made["requestBody"] = {
                    "required": given["requestBody"].get("required", False),
                    "content": content(given["requestBody"], False),
                }
            for status, answer in given["responses"].items():
                kept = content(answer, True)
                made["responses"][status] = {
                    "description": "",
                    **({"content": kept} if kept else {}),
                }
            paths.setdefault(path, {})[method] = made
    return {
        "openapi": "3.0.3",
        "info": {"title": "GitHub", "version": f"@octokit/openapi {version}"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


if __name__ == "__main__":
    lines = json.dumps(facts(Path(sys.argv[1])), sort_keys=True, separators=(",", ":"))
    FACTS.write_text(lines + "\n")
