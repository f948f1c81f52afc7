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
from ratchet.observe.outbox import Opened, Outbox
from ratchet.types import ConfigError, Feedback

if TYPE_CHECKING:
    from pathlib import Path

    from ratchet.client import Client
    from ratchet.observe.destination import Destination
    from ratchet.store import Store

_log = logging.getLogger("ratchet")


def put(item: Feedback) -> bool:
    """Have a statement sent; False when too many wait."""
    _see_to_the_end()
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


class _Server:
    """A server, through its API."""

    def __init__(self, url: str, key: str | None) -> None:
        self.place = url
        self._key = key
        self._client: Client | None = None

    def send(self, items: Sequence[Feedback], /) -> None:
        from ratchet.observe.sending import TIMEOUT_S, failure
        from ratchet.types import RatchetError

        try:
            if self._client is None:
                from ratchet.client import Client

                self._client = Client(self.place, self._key, patience_s=0.0, timeout_s=TIMEOUT_S)
            self._client.feedback.add(items)
        except RatchetError as error:
            raise failure(error) from error

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class _Store:
    """A store, on this machine or another."""

    def __init__(self, url: str, root: Path | None) -> None:
        # The rest of the address may hold a password.
        self.place = url if url.startswith("sqlite:") else "the store of RATCHET_STORE"
        self._url = url
        self._root = root
        self._store: Store | None = None

    def send(self, items: Sequence[Feedback], /) -> None:
        from ratchet.observe.place import prepare_state
        from ratchet.observe.sending import failure
        from ratchet.types import RatchetError

        try:
            if self._store is None:
                from ratchet.store import Store

                if self._root is not None:
                    prepare_state(self._root)
                self._store = Store.open(self._url)
            self._store.feedback.add(items, time.time())
        except RatchetError as error:
            raise failure(error) from error

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _open() -> Opened:
    """What `ratchet.init` was told to send to, or would find."""
    from ratchet.observe.backlogs import feedback_backlog
    from ratchet.observe.delivery import Delivery
    from ratchet.observe.destination import find
    from ratchet.observe.sending import Target, failure
    from ratchet.types import RatchetError

    asked = _asked()
    try:
        found = find(asked.get("agent"), asked.get("url"), asked.get("key"))
    except RatchetError as error:
        raise failure(error) from error
    target: Target[Feedback] = (
        _Server(found.server, found.key) if found.server else _Store(found.store, found.root)
    )
    backlog = feedback_backlog(found, on_disk=bool(asked.get("spool", True)))
    delivery = Delivery(
        target, backlog, time.monotonic, kind=Feedback, many="Statements of feedback"
    )
    return Opened(_redaction(asked, found), delivery)


def _setting() -> object:
    """What the destination depends on; it may be told late, or anew."""
    from ratchet.observe import setup

    variables = ("RATCHET_URL", "RATCHET_KEY", "RATCHET_STORE")
    return setup.current(), [os.environ.get(name) for name in variables]


def _asked() -> Mapping[str, Any]:
    """Arguments of `ratchet.init`."""
    from ratchet.observe import setup

    handle = setup.current()
    return (handle._asked if handle is not None else None) or {}


def _redaction(asked: Mapping[str, Any], found: Destination) -> Callable[[Feedback], Feedback]:
    import msgspec

    from ratchet.observe.redaction import Rules, redactor_of

    wanted = asked.get("redact", True)
    content = bool(asked.get("capture_content", True))
    if hasattr(wanted, "feedback"):
        return wanted.feedback  # type: ignore[no-any-return]
    if not content or wanted is False or wanted is None:
        return redactor_of(Rules(enabled=False, capture_content=content), {}).feedback
    try:
        rules = msgspec.convert(found.config.get("redaction", {}), Rules)
        return redactor_of(rules, os.environ).feedback
    except (msgspec.ValidationError, ConfigError) as error:
        # Rules that cannot be read may be the ones that matter.
        _log.warning("[redaction] cannot be read (%s): no contents are kept.", error)
        return redactor_of(Rules(capture_content=False), {}).feedback


_outbox = Outbox(_open, _setting)
_seen_to: int = 0


def _see_to_the_end() -> None:
    """Have a child of `multiprocessing` send its feedback too: it ends without `atexit`."""
    global _seen_to
    if _seen_to == os.getpid():
        return
    _seen_to = os.getpid()
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=10)


def _at_exit() -> None:
    _outbox.close(outbox.EXIT_S)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_outbox.forked)
