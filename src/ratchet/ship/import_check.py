"""Imports the patched agent, if the program computes its values, and compares them.

An edit of a literal in the declaring call is proved by reading the source. What stands elsewhere
passes through the program before it is declared, which may strip, convert or cache it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ratchet.ship.check import TestCommand, run_once
from ratchet.ship.edit import values_of
from ratchet.ship.repository import Repository
from ratchet.types import Resource, ShipError

_PROBE = """
import importlib, sys
importlib.import_module(sys.argv[1])
from ratchet.bind import registry
from ratchet.ship.import_check import digest
found = registry.declarations()
print("ratchet:" + digest({name: found[name].resource for name in sys.argv[2:]}), flush=True)
"""
_TIMEOUT_S = 120.0


def digest(resources: Mapping[str, Resource]) -> str:
    """A hash of the values of resources."""
    values = [
        (name, sorted(values_of(resource).items())) for name, resource in sorted(resources.items())
    ]
    return hashlib.sha256(repr(values).encode(errors="surrogatepass")).hexdigest()


def check_declared(
    repository: Repository,
    commit: str,
    base: str,
    module: str,
    resources: Mapping[str, Resource],
    tests: TestCommand,
) -> str:
    """Check that importing a commit's agent declares the candidate's values.

    It is imported in a temporary work tree, as the tests run there.

    Args:
        repository: The commit's repository.
        commit: Full hash of the patched commit.
        base: Full hash of the commit without the patch.
        module: The agent's module.
        resources: What the candidate has, by name.
        tests: Permissions of the repository's tests.

    Returns:
        A sentence for the pull request when it could not be checked; otherwise empty.

    Raises:
        ShipError: It declares other values, or can be imported only without the patch.
    """
    probe = shlex.join(["{python}", "-c", _PROBE, module, *sorted(resources)])
    command = replace(tests, command=probe, timeout_s=min(tests.timeout_s, _TIMEOUT_S))
    names = ", ".join(sorted(resources))
    probe_run = run_once(repository, commit, command)
    if probe_run.outcome == "passed":
        if f"ratchet:{digest(resources)}" in probe_run.output.split():
            return ""
        raise ShipError(
            f"With this change, {module} does not declare {names} with the candidate's values: "
            "the program alters the values that it reads. No branch was created.",
            hint="Declare it as a literal, or write the new values by hand.",
        )
    why = _last_line(probe_run.output) or probe_run.sentence()
    if run_once(repository, base, command).outcome != "passed":
        return (
            f"Whether {module} declares {names} with the candidate's values was not checked: "
            f"importing it fails even without the change ({why})."
        )
    raise ShipError(
        f"With this change, {module} cannot be imported: {why}. No branch was created.",
        hint="Declare the changed values as literals, or write the new values by hand.",
    )


def _last_line(output: str) -> str:
    lines: Sequence[str] = output.strip().splitlines()
    return lines[-1][:200].rstrip(".") if lines else ""
