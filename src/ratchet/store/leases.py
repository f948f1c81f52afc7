"""Leases with fencing tokens: who leads, and a guard that refuses all other writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select, update

from ratchet.store.engine import Database
from ratchet.store.tables import leases
from ratchet.types import Lease, LeaseLost


class Leases:
    """Leases by name. Each new holder gets a higher fencing token.

    They run out by the clock that the machines of a store share. That two never write is held by
    the fencing token alone.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(leases, "name")

    def acquire(self, name: str, holder: str, *, now: float, ttl_s: float) -> Lease | None:
        """Take a lease that is free or expired, or renew one's own.

        Args:
            name: What is led.
            holder: Tells this process from all others, also from one of the same id before it.
            now: Unix seconds.
            ttl_s: Seconds until it runs out.

        Returns:
            The lease; None while another holds it.
        """
        now = self._database.lease_clock.shared(now)
        until = now + ttl_s
        mine = leases.c.name == name

        def work(connection: Connection) -> Lease | None:
            row = {"name": name, "holder": "", "fence": 0, "expires_at": 0.0}
            connection.execute(self._insert, row)
            lease = connection.execute(select(leases).where(mine).with_for_update()).one()
            if lease.holder != holder and lease.holder and lease.expires_at > now:
                return None
            fence = lease.fence if lease.holder == holder else lease.fence + 1
            connection.execute(
                update(leases).where(mine).values(holder=holder, fence=fence, expires_at=until)
            )
            return Lease(name=name, holder=holder, fence=fence, expires_at=until)

        return self._database.write(work)

    def release(self, lease: Lease) -> None:
        """Return a lease, so that nobody has to wait until it expires."""
        mine = (leases.c.name == lease.name) & (leases.c.fence == lease.fence)
        query = update(leases).where(mine).values(holder="", expires_at=0.0)
        self._database.write(lambda c: c.execute(query))

    def get(self, name: str) -> Lease | None:
        """Return the lease as it was last taken; None if nobody holds it."""
        query = select(leases).where(leases.c.name == name)
        row = self._database.read(lambda c: c.execute(query).first())
        if row is None or not row.holder:
            return None
        return Lease(name=row.name, holder=row.holder, fence=row.fence, expires_at=row.expires_at)

    @contextmanager
    def guard(self, lease: Lease) -> Iterator[None]:
        """Refuse every write to the store in this context once another holds the lease.

        Writes raise LeaseLost then, and nothing of them is stored. A lease that ran out, but that
        nobody took, still holds. Threads that are started inside are not covered, unless they take
        over the context, as `asyncio.to_thread` does.
        """
        query = select(leases.c.fence).where(leases.c.name == lease.name).with_for_update(read=True)

        def check(connection: Connection) -> None:
            if connection.execute(query).scalar() != lease.fence:
                raise LeaseLost(
                    f"Another process now leads {lease.name!r}: writes of this process are "
                    "refused.",
                    hint="The other process continues; there is nothing to do.",
                )

        with self._database.guarding(check):
            yield
