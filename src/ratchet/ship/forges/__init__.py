"""Pull requests of releases on GitHub and GitLab."""

from ratchet.ship.forges.propose import (
    RequestPreview,
    open_revert,
    preview,
    propose,
    read,
    refresh_request,
    with_request,
    withdraw,
)
from ratchet.ship.forges.settings import ForgeSettings

__all__ = [
    "ForgeSettings",
    "RequestPreview",
    "open_revert",
    "preview",
    "propose",
    "read",
    "refresh_request",
    "with_request",
    "withdraw",
]
