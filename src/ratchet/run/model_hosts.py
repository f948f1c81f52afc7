"""Hosts to which model calls go directly, whatever the variables for base URLs say.

In the agent's process a hook sends these calls to a relay, with their address in the path. Of a
protocol that the gateway knows they go on to the gateway, which is told the address; others go to
their host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ratchet import hooks
from ratchet.hooks.python.ratchet_recording_hook.shapes import is_model_request, place_of
from ratchet.observe.model_apis import MODEL_APIS, MODEL_IN_PATH, DialectName
from ratchet.observe.model_apis.bounded_json import decoded
from ratchet.run.model_relay import RelayedRequest, direct_path

PYTHON_HOOK = Path(hooks.__file__).with_name("python")
NODE_HOOK = Path(hooks.__file__).with_name("node") / "model_hook.cjs"

UPSTREAM_HEADER = "x-ratchet-upstream"
"""Header that tells the gateway the base URL to which a call would go without it."""

MODEL_RELAY = "RATCHET_MODEL_RELAY"
"""Variable with the URL of the relay, for the hook."""

STAND_IN = "RATCHET_MODEL_STAND_IN"
"""Variable with the URL of a relay that answers for all model hosts, while a wiring is verified."""


class ModelOperation(NamedTuple):
    """What a call asks for, in a protocol that the gateway knows."""

    dialect: DialectName
    base_url: str
    path: str
    """The path below the base URL, with its query."""


def operation_of(url: str) -> ModelOperation | None:
    """The operation that the end of a URL's path names; None for unknown protocols."""
    place = urlsplit(url)
    below = place.path.rstrip("/")
    operations = [(path, dialect) for dialect, path in MODEL_APIS if below.endswith(f"/{path}")]
    if with_model := MODEL_IN_PATH.search(below):
        operations.append((with_model.group(), "gemini"))
    if not operations:
        return None
    path, dialect = max(operations, key=lambda operation: len(operation[0]))
    base_url = f"{place.scheme}://{place.netloc}{below.removesuffix(f'/{path}')}"
    return ModelOperation(dialect, base_url, f"{path}?{place.query}" if place.query else path)


def asked_url(request: RelayedRequest, hosts: Sequence[str]) -> str:
    """The URL of a model call to one of these hosts, which a hook has put into the path.

    Returns:
        The URL; empty for any other request, so that no other host can be reached this way.
    """
    scheme, _, location = request.path.lstrip("/").partition("/")
    url = f"{scheme}://{location}"
    if request.method != "POST" or not is_of(url, hosts):
        return ""
    try:
        body = decoded(request.body)
    except ValueError:
        return ""
    return url if is_model_request(urlsplit(url).path, body) else ""


def is_of(url: str, hosts: Sequence[str]) -> bool:
    """Whether a URL is in the plain form and at one of these hosts."""
    host = place_of(url)
    plain = url.startswith((f"http://{host}/", f"https://{host}/")) or url in (
        f"http://{host}",
        f"https://{host}",
    )
    return plain and host in hosts


def reached_at(url: str) -> str:
    """Where a model host's URL is requested: at that host, unless another answers for all."""
    stand_in = os.environ.get(STAND_IN, "")
    return f"{stand_in}{direct_path(url)}" if stand_in else url


def proxy_of(url: str) -> str:
    """The proxy that this process's environment sets for a URL; empty for none."""
    place = urlsplit(url)
    host = place.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return ""
    proxies = getproxies()
    return proxies.get(place.scheme) or proxies.get("all") or ""


def javascript_hook(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that load a file into each process of Node and Bun.

    Args:
        file: The file. Bun takes no quotes, so it loads none with a space in its path.
        environ: The environment besides.
    """
    options = {"NODE_OPTIONS": f'--require "{file}"', "BUN_OPTIONS": f"--preload={file}"}
    if " " in str(file):
        del options["BUN_OPTIONS"]
    return {name: f"{environ.get(name, '')} {option}".lstrip() for name, option in options.items()}


def hook_variables(relay: str, hosts: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that route calls from Python and Node to hosts through a relay, in a process and
    its children.

    Args:
        relay: Its URL; calls go below it.
        hosts: The hosts; without any there are no variables.
        environ: Its environment besides.
    """
    if not hosts:
        return {}
    paths = [str(PYTHON_HOOK), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        **javascript_hook(NODE_HOOK, environ),
        MODEL_RELAY: relay,
        "RATCHET_MODEL_HOSTS": ",".join(hosts),
    }
