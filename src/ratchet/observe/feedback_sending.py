"""Where feedback goes: to the same place as spans, by the same rules, from a thread of its own."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ratchet.observe import outbox
from ratchet.observe.outbox import FeedbackPipeline, Outbox
from ratchet.types import ConfigError, Feedback

if TYPE_CHECKING:
    from pathlib import Path

    from ratchet.client import Client
    from ratchet.observe.destination import Destination
    from ratchet.store import Store

_log = logging.getLogger("ratchet")


def put(item: Feedback) -> bool:
    """Have a statement sent; False when too many wait."""
    _send_at_exit_of_child()
    return _outbox.put(item)


def start() -> None:
    """Send what an earlier process left on disk."""
    _outbox.start()


def flush(timeout_s: float = outbox.EXIT_S) -> bool:
    """Send what waits. Returns whether all of it is stored now."""
    return _outbox.flush(timeout_s)


def close(timeout_s: float = outbox.EXIT_S) -> None:
    """Send what waits, within a bound; what is left waits on disk. More may be said afterwards."""
    _outbox.close(timeout_s)


class _ServerTransport:
    """A server, through its API."""

    def __init__(self, url: str, key: str | None) -> None:
        self.label = url
        self._key = key
        self._client: Client | None = None

    def send(self, items: Sequence[Feedback], /) -> None:
        from ratchet.observe.sending import TIMEOUT_S, transport_error
        from ratchet.types import RatchetError

        try:
            if self._client is None:
                from ratchet.client import Client

                self._client = Client(self.label, self._key, patience_s=0.0, timeout_s=TIMEOUT_S)
            self._client.feedback.add(items)
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class _StoreTransport:
    """A store, on this machine or another."""

    def __init__(self, url: str, root: Path | None) -> None:
        # The rest of the address may hold a password.
        self.label = url if url.startswith("sqlite:") else "the store of RATCHET_STORE"
        self._url = url
        self._root = root
        self._store: Store | None = None

    def send(self, items: Sequence[Feedback], /) -> None:
        from ratchet.observe.project_paths import prepare_state
        from ratchet.observe.sending import transport_error
        from ratchet.types import RatchetError

        try:
            if self._store is None:
                from ratchet.store import Store

                if self._root is not None:
                    prepare_state(self._root)
                self._store = Store.open(self._url)
            self._store.feedback.add(items, time.time())
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _open() -> FeedbackPipeline:
    """What `ratchet.init` was told to send to, or would find."""
    from ratchet.observe.backlogs import feedback_backlog
    from ratchet.observe.delivery import Delivery
    from ratchet.observe.destination import find
    from ratchet.observe.sending import RecordTransport, transport_error
    from ratchet.types import RatchetError

    arguments = _init_arguments()
    try:
        found = find(arguments.get("agent"), arguments.get("url"), arguments.get("key"))
    except RatchetError as error:
        raise transport_error(error) from error
    transport: RecordTransport[Feedback] = (
        _ServerTransport(found.server, found.key)
        if found.server
        else _StoreTransport(found.store, found.root)
    )
    backlog = feedback_backlog(found, on_disk=bool(arguments.get("spool", True)))
    delivery = Delivery(
        transport, backlog, time.monotonic, kind=Feedback, plural="Statements of feedback"
    )
    return FeedbackPipeline(_redaction(arguments, found), delivery)


def _setting() -> object:
    """What the destination depends on; it may be told late, or anew."""
    from ratchet.observe import setup

    variables = ("RATCHET_URL", "RATCHET_KEY", "RATCHET_STORE")
    return setup.current(), [os.environ.get(name) for name in variables]


def _init_arguments() -> Mapping[str, Any]:
    """Arguments of `ratchet.init`."""
    from ratchet.observe import setup

    handle = setup.current()
    return (handle._arguments if handle is not None else None) or {}


def _redaction(arguments: Mapping[str, Any], found: Destination) -> Callable[[Feedback], Feedback]:
    import msgspec

    from ratchet.observe.redaction import RedactionRules, redactor_of

    wanted = arguments.get("redact", True)
    content = bool(arguments.get("capture_content", True))
    if hasattr(wanted, "feedback"):
        return wanted.feedback  # type: ignore[no-any-return]
    if not content or wanted is False or wanted is None:
        return redactor_of(RedactionRules(enabled=False, capture_content=content), {}).feedback
    try:
        rules = msgspec.convert(found.config.get("redaction", {}), RedactionRules)
        return redactor_of(rules, os.environ).feedback
    except (msgspec.ValidationError, ConfigError) as error:
        # Rules that cannot be read may be the ones that matter.
        _log.warning("[redaction] cannot be read (%s): no contents are kept.", error)
        return redactor_of(RedactionRules(capture_content=False), {}).feedback


_outbox = Outbox(_open, _setting)
_registered_in: int = 0


def _send_at_exit_of_child() -> None:
    """Have a child of `multiprocessing` send its feedback too: it ends without `atexit`."""
    global _registered_in
    if _registered_in == os.getpid():
        return
    _registered_in = os.getpid()
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=10)


def _at_exit() -> None:
    _outbox.close(outbox.EXIT_S)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_outbox.forked)
