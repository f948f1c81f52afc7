"""Persistence in SQLite or Postgres, with one repository for each type of `ratchet.types`."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, func, select

from ratchet.store import tables
from ratchet.store.access_keys import AccessKeys
from ratchet.store.activity import Activity
from ratchet.store.agents import Agents
from ratchet.store.audit import Audit
from ratchet.store.called_models import CalledModels
from ratchet.store.candidates import Candidates
from ratchet.store.conversations import Conversations
from ratchet.store.cycles import Cycles
from ratchet.store.datasets import Datasets
from ratchet.store.engine import Database
from ratchet.store.events import Event, Events
from ratchet.store.experiments import Experiments
from ratchet.store.feedback import FeedbackLog
from ratchet.store.frozen_sets import FrozenSets
from ratchet.store.journal import Journal
from ratchet.store.labels import Labels
from ratchet.store.leases import Leases
from ratchet.store.location import parse
from ratchet.store.operator_commands import OperatorCommands
from ratchet.store.outbox import Outbox
from ratchet.store.owners import Owners
from ratchet.store.partitions import SpanPartitions
from ratchet.store.problems import Problems
from ratchet.store.pruning import Pruning
from ratchet.store.recordings import Recordings
from ratchet.store.releases import Releases
from ratchet.store.report_cards import ReportCards
from ratchet.store.resources import Resources
from ratchet.store.rollouts import Rollouts
from ratchet.store.runs import Runs
from ratchet.store.schema import prepare
from ratchet.store.scores import Mean, Scores
from ratchet.store.settings import Settings
from ratchet.store.spans import Spans
from ratchet.store.trace_index import TraceIndex
from ratchet.store.traces import Traces
from ratchet.store.traffic import Traffic
from ratchet.store.transitions import Transitions

__all__ = ["Event", "Mean", "Store"]


class Store:
    """One database, with a repository per type. Open it with `Store.open`.

    Thread-safe; after a fork, parent and child may both use it. Changes are committed when a method
    returns and survive `kill -9`.

    `get` by content hash (resources, candidates, datasets) raises InputError when the hash is
    unknown; `get` of runs, experiments and releases returns None. `find` searches by id prefix.
    Every method raises StoreError when the database cannot be reached, read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._before_close: Callable[[], object] = lambda: None
        self.resources = Resources(database)
        self.candidates = Candidates(database, self.resources)
        self.datasets = Datasets(database)
        self.partitions = SpanPartitions(database)
        self.transitions = Transitions(database)
        self.spans = Spans(database, self.partitions, self.transitions)
        self.scores = Scores(database)
        self.rollouts = Rollouts(database, self.spans, self.scores)
        self.journal = Journal(database)
        self.runs = Runs(database)
        self.experiments = Experiments(database)
        self.releases = Releases(database)
        self.frozen_sets = FrozenSets(database)
        self.leases = Leases(database)
        self.activity = Activity(database)
        self.outbox = Outbox(database)
        self.cycles = Cycles(database, self.outbox)
        self.operator_commands = OperatorCommands(database)
        self.agents = Agents(database)
        self.traffic = Traffic(database, self.agents, self.candidates)
        self.feedback = FeedbackLog(database)
        self.labels = Labels(database)
        self.problems = Problems(database)
        self.report_cards = ReportCards(database)
        self.trace_index = TraceIndex(database)
        self.traces = Traces(database, self.feedback, self.trace_index)
        self.recordings = Recordings(database)
        self.called_models = CalledModels(database)
        self.conversations = Conversations(database)
        self.events = Events(database)
        self.keys = AccessKeys(database)
        self.audit = Audit(database)
        self.settings = Settings(database)
        self.owners = Owners(database)
        self.pruning = Pruning(database, self.trace_index)

    @classmethod
    def open(cls, url: str, *, patience_s: float = 0.0) -> Store:
        """Open a store; create or upgrade its database if needed.

        Args:
            url: `sqlite:///relative/path.db`, `sqlite:////absolute/path.db` (a missing folder is
                created) or `postgresql://user:password@host:port/name`.
            patience_s: Seconds to retry while the database cannot be reached.

        Raises:
            StoreError: The URL is malformed or the database cannot be opened, read and written; or
                it is damaged, belongs to another program, or was created by a newer Ratchet. It is
                left unchanged.
        """
        database = Database(parse(url))
        try:
            prepare(database, patience_s=patience_s)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def summary(self) -> dict[str, Any]:
        """Summarise the store, for `ratchet status`.

        Returns:
            `rollouts` (number by status), `candidates`, `datasets`, `experiments` and `releases`
            (numbers), `run` (the Run updated last, or None).
        """

        def work(connection: Connection) -> dict[str, Any]:
            status = tables.rollouts.c.status
            by_status = select(status, func.count()).group_by(status).order_by(status)
            counts: dict[str, Any] = {
                "rollouts": {r[0]: r[1] for r in connection.execute(by_status)}
            }
            for name in ("candidates", "datasets", "experiments", "releases"):
                table = tables.metadata.tables[name]
                counts[name] = connection.scalar(select(func.count()).select_from(table))
            return counts

        return {**self._database.read(work), "run": self.runs.latest()}

    def identity(self) -> str:
        """Random text that distinguishes this store from others, however it is reached."""
        return self.settings.get_or_create("store_identity", lambda: uuid4().hex)

    def ping(self) -> None:
        """Check that the database answers.

        Raises:
            StoreError: It does not.
        """
        self._database.read(lambda c: c.execute(select(1)).scalar(), patience_s=1.0)

    def before_close(self, action: Callable[[], object]) -> None:
        """Call this once before the store is closed."""
        self._before_close = action

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        action, self._before_close = self._before_close, lambda: None
        try:
            action()
        finally:
            self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self._database.location}>"
