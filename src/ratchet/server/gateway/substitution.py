"""The seam where prompts are replaced: what the gateway asks, and what it is told."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from ratchet.server.gateway.dialects import Dialect
from ratchet.server.gateway.target import Target


class Substitution(msgspec.Struct, frozen=True):
    """A request to be sent in the place of the client's."""

    request: dict[str, Any]
    """As `Dialect.with_texts` makes it: what did not change is the same object."""
    attributes: dict[str, Any] = {}
    """What the span of the call says about it, such as the candidate and the resources."""


class Substitute(Protocol):
    """Replaces what a request says, before it is sent."""

    async def __call__(
        self, target: Target, request: dict[str, Any], dialect: Dialect
    ) -> Substitution | None:
        """The request to send instead; None to send it as it is.

        Args:
            target: Whom the call belongs to.
            request: The decoded request; it is not to be changed.
            dialect: Finds the instructions in it and replaces them.

        Raises:
            RatchetError: The store cannot say what to replace. A call of an attempt fails then,
                since it would run with the wrong prompt; a live agent's call goes on unchanged.
        """
