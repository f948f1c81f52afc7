"""Measures the queue over HTTP: rollouts claimed and finished per second.

    python benchmarks/queue.py [--quick] [--peer | --no-peer]

`ratchet serve` and its client are two processes that share the machine's cores. The client is the
real runner with an executor that does nothing, so the benchmark measures claims, reports and lease
renewals, in the batches that runners use. Every finished rollout is in the database: SQLite, then
Postgres with its default fsync. The same run measures the store server of agentlightning 0.3, which
holds everything in memory, through its own client, with its batch calls and at its best
concurrency; its environment is built under .bench/agentlightning on first use. The last line
printed is one JSON object:

- ours_sqlite_per_s, ours_postgres_per_s: claimed and finished per second, by the runner
- peer_per_s: agentlightning's best result
- ratio: ours on SQLite over the peer's
- ours_sqlite_single_per_s, ours_postgres_single_per_s, peer_single_per_s: the same without batches:
  each request claims or finishes one rollout, over 16 connections
- peer_tried: per second, by method of calling
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Python searches this folder first for modules of its scripts, and the standard library has a
# `queue` too.
sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]

if __name__ == "__main__":
    sys.path.insert(0, str(HERE / "parts"))
    from queue_over_http import main

    main(__doc__ or "")
else:
    # An import of the standard library's module found this file: return the real one.
    del sys.modules[__name__]
    import queue

    sys.modules[__name__] = queue
