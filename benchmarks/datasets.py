"""Measures datasets: what splits leak, what capture costs, what results tell of labels and tasks.

    python benchmarks/datasets.py [--quick] [--only PART]

Each part is a module of benchmarks/parts/datasets/ with a function `measure(quick)`; the last line
of stdout is one JSON object with the keys of all parts. `near_duplicates`:

- straddling_duplicates: groups of planted near-duplicates that are in two splits
- wrong_merges: pairs of texts that were grouped although they differ in a number, a negation, a
  name, or the value of a template
- near_duplicate_f1: harmonic mean of precision and recall over pairs of texts
- near_duplicate_texts: number of texts; texts_per_s: texts grouped per second of CPU
  time, of 100,000

`capture`:

- capture_ratio: seconds to capture tasks from all traces, divided by the seconds of a plain read of
  their spans, in order and in pages
- capture_peak_mb: the most memory that capture had, beyond what it had at its start
- capture_growth_mb: the same with all spans, less that with a tenth of them
- capture_spans, capture_tasks: number of spans read and of tasks captured
- capture_spans_per_s: spans of the captured traces per second

`labels`, `core_set` and `ppi` describe their keys themselves: among them label_precision and
label_recall_10 (planted wrong labels found), core_tau and core_tau_random (Kendall's tau of
held-out candidates on a tenth of the tasks), ppi_coverage and ppi_width (means from few labels and
a judge).

The exit code is 1 when near-duplicates straddle splits, texts are merged wrongly, or the F1 is
below 0.96.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "parts" / "datasets"))

PARTS = ("near_duplicates", "capture", "labels", "planted_labels", "core_set", "ppi")
"""Modules of benchmarks/parts/datasets/."""


def main() -> int:
    """Measure the parts and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, as in CI")
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    for part in PARTS if given.only is None else (given.only,):
        measure = importlib.import_module(f"benchmarks.parts.datasets.{part}").measure
        found = measure(given.quick)
        print(f"{part}: {found}", file=sys.stderr, flush=True)
        figures.update(found)
    print(json.dumps({**figures, "quick": given.quick}))
    bad = (
        figures.get("straddling_duplicates", 0) > 0
        or figures.get("wrong_merges", 0) > 0
        or figures.get("near_duplicate_f1", 1.0) < 0.96
    )
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
