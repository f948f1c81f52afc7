"""How fast rollouts go through the queue over HTTP: claimed and finished, per second.

    python benchmarks/queue.py [--quick] [--peer | --no-peer]

`ratchet serve` and its client are two processes that share the machine's cores; the client is the
real runner with an executor that does nothing, so what is measured is claiming, reporting and
keeping leases, in the batches that runners use. Every finished rollout is in the database: SQLite,
then Postgres with fsync as it comes. In the same run the store server of agentlightning 0.3, which
keeps everything in memory, is measured through its own client, with its batch calls and at the
concurrency that suits it best; its environment is built under .bench/agentlightning on first use.
The last line printed is one JSON object:

- ours_sqlite_per_s, ours_postgres_per_s: claimed and finished per second, by the runner
- peer_per_s: agentlightning's, the best of what was tried
- ratio: ours on SQLite over theirs
- ours_sqlite_single_per_s, ours_postgres_single_per_s, peer_single_per_s: the same without batches:
  each request claims or finishes one rollout, 16 connections at once
- peer_tried: per second, by how it was called
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This folder is where Python looks first for modules of its scripts, and Python has a `queue` too.
sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]

if __name__ == "__main__":
    sys.path.insert(0, str(HERE / "parts"))
    from queue_over_http import main

    main(__doc__ or "")
else:
    # A neighbour's import of Python's own module found this file: hand out what was meant.
    del sys.modules[__name__]
    import queue

    sys.modules[__name__] = queue
