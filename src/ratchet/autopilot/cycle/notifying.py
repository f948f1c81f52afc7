"""Tells people through a webhook: JSON of our own, or a message that Slack accepts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ratchet.autopilot.cycle_sections import NotifySection
from ratchet.llm.backoff import requested_delay
from ratchet.types import ConfigError, Cycle, CycleAction, RatchetError


class NotificationFailed(RatchetError):
    """A webhook did not accept a notification.

    Args:
        message: As for `RatchetError`.
        retry_at: Unix seconds when the receiver wants to be asked again; None if it did not say.
    """

    def __init__(self, message: str, retry_at: float | None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


def message_of(action: CycleAction, cycle: Cycle, form: str) -> dict[str, Any]:
    """The body of a notification's request.

    Args:
        action: A `notify` action.
        cycle: Its cycle.
        form: `json` or `slack`.
    """
    text = str(action.body["text"])
    if form == "slack":
        # Slack reads these three in text as markup (Slack API, "Formatting text").
        plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": f"Ratchet, {cycle.agent}: {plain}"}
    return {
        "event": action.body["event"],
        "text": text,
        "agent": cycle.agent,
        "cycle": cycle.id,
        "state": cycle.state,
        "request": cycle.request,
        "key": action.key,
    }


async def notify(
    action: CycleAction,
    cycle: Cycle,
    section: NotifySection,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """Send a notification; without an address there is nobody to tell.

    The address is a secret: it is read from the environment, and no error repeats it.

    Raises:
        ConfigError: The variable of the address is not set, or is not an address.
        NotificationFailed: The receiver cannot be reached or refuses.
    """
    from ratchet._http import httpx2

    if section.url_env is None:
        return {"sent": "to nobody"}
    url = environ.get(section.url_env, "")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"The variable {section.url_env} of url_env under [notify] holds no http(s) address."
        )
    try:
        async with httpx2.AsyncClient(timeout=section.timeout_s) as client:
            body = message_of(action, cycle, section.format)
            response = await client.post(url, json=body, headers={"idempotency-key": action.key})
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        kind = type(error).__name__
        raise NotificationFailed(f"The webhook cannot be reached: {kind}.", None) from None
    if response.is_success:
        return {"sent": "yes"}
    now = time.time()
    delay_s = requested_delay(response.headers, now)
    raise NotificationFailed(
        f"The webhook answered {response.status_code}.", None if delay_s is None else now + delay_s
    )
