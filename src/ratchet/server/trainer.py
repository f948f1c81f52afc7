"""`Trainer`: improve an agent given as an object, without a project.

The API follows Agent Lightning's trainer, so that its users only change an import.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ratchet.autopilot.training import FittingTrainer

if TYPE_CHECKING:
    from ratchet.autopilot.trainable import ServedModel

KEY_VARIABLE = "RATCHET_LOCAL_MODEL_KEY"
"""Variable of the server's environment, not of this process, with the model's key."""


class Trainer(FittingTrainer):
    """Learns better resources for an agent.

    Args:
        algorithm: Proposes candidates, such as `APO(…)`, `Evolve(…)`, `FewShot(…)`, `Tune(…)`;
            or trains the model: `GRPO(…)`, `PPO(…)`, `SFT(…)`, `DPO(…)`.
        n_runners: Concurrent rollouts.
        initial_resources: Resource by name; a plain text is a prompt template. By default those
            that the agent's source declares (`ratchet.prompt` and the like).
        max_rollouts: Maximum rollouts for learning.
        budget: All limits, in place of `max_rollouts`.
        coach: The coach for algorithms that need one; by default made from the algorithm's own
            options.
        seed: Seed of all randomness.
        timeout_s: Timeout of one rollout in seconds.
        store: `file` stores in ./.ratchet, so that a killed fit resumes; `memory` does not persist;
            or the URL of a store.
        progress: Prints progress to standard error; False is silent.
        n_workers: Alias of `n_runners`.
        unsafe_code: Also change functions. Their candidates then run in this process, with its
            permissions, and could give themselves any reward; a project runs them in a sandbox.
        device: PyTorch's name of the device that a model is trained and served on.
        dtype: Type of its numbers: `float32`, `bfloat16` or `float16`.

    Example:
        trainer = ratchet.Trainer(
            algorithm=ratchet.APO(model="gpt-6-luna"),
            n_runners=8,
            initial_resources={"prompt_template": "You are a booking assistant."},
        )
        trained = trainer.fit(agent=booking_agent, train_dataset=tasks, val_dataset=held_back)
        print(trained.best["prompt_template"])
    """

    @asynccontextmanager
    async def _gateway(self, store_url: str, model: ServedModel) -> AsyncIterator[str]:
        from ratchet.server.background import background_server
        from ratchet.server.gateway.upstream import Upstream
        from ratchet.server.serve import ServeSettings
        from ratchet.store import Store

        upstream = Upstream(
            name="local", dialect="openai", base_url=model.base_url, key_env=KEY_VARIABLE
        )
        settings = ServeSettings(port=0, upstreams=(upstream,))
        environ = {**os.environ, KEY_VARIABLE: model.key}
        async with background_server(Store.open(store_url), settings, environ=environ) as url:
            yield url
