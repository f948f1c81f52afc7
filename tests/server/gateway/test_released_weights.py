"""Released weights behind a gateway and the policy server: restarts, and a rollback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet._http import httpx2
from ratchet.autopilot.adapters import AdapterFolder, served_name
from ratchet.models.policy import PolicyServer, load_base
from ratchet.server.gateway.adapter_loading import AdapterLoader
from ratchet.server.gateway.substitution import PromptSubstituter
from ratchet.server.gateway.upstream import Upstream
from ratchet.store import Store
from ratchet.types import Adapter, Model
from tests.models.policy.tiny_models import save_adapter, save_model
from tests.server.gateway.conftest import Site
from tests.server.gateway.test_substitution import World

pytestmark = pytest.mark.torch


def test_a_release_is_served_after_restarts_and_a_rollback_brings_the_base_back(
    disk: Store, open_site: Callable[..., Site], tmp_path: Path
) -> None:
    folder = save_model(tmp_path / "tiny")
    base = load_base(folder)
    kept = AdapterFolder(tmp_path / "adapters")
    first, second = (
        kept.keep(save_adapter(tmp_path / str(seed), base, seed=seed)) for seed in (1, 2)
    )
    world = World(disk)
    world.switch()
    released = [
        world.candidate(model=Model(served_name(hash), adapter=Adapter(hash, base.fingerprint)))
        for hash in (first, second)
    ]
    loader = AdapterLoader(tmp_path / "adapters")

    def version(server: PolicyServer) -> str:
        """Version of the weights that answer a call of the agent's, which names the base."""
        upstream = Upstream(name="local", dialect="openai", base_url=server.base_url)
        # Each call finds a gateway that has just read what is active.
        site = open_site(upstream, substitute=PromptSubstituter(disk), adapters=loader)
        body = {"model": base.name, "messages": [{"role": "user", "content": "hi"}]}
        answer = httpx2.post(
            f"{site.url('bot')}/chat/completions", json={**body, "max_tokens": 2}, timeout=60
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["ratchet"]["version_first"])

    with PolicyServer(folder, threads=1, require_key=False) as server:
        assert version(server) == base.fingerprint
        world.activate(released[0])
        assert version(server) == first
    with PolicyServer(folder, threads=1, require_key=False) as server:
        assert version(server) == first
        world.activate(released[1])
        assert version(server) == second
        world.activate(released[0])
        assert version(server) == first
        world.activate(None)
        assert version(server) == base.fingerprint
