"""The error of a local model that cannot be fetched, started or used."""

from __future__ import annotations

from ratchet.types import RatchetError


class ModelUnavailable(RatchetError):
    """The local model cannot be fetched or started: no engine, a broken file, too little memory."""

    exit_code = 9
