"""What the SDK brings into the agent's environment, beside the SDKs of other tracers.

    python benchmarks/footprint.py [--quick]

Each is installed by itself into a fresh environment under .bench/, from the package index; ours
from a wheel of this checkout. Counted are the distributions besides the SDK itself, the megabytes
of all that was installed, the seconds of the import beside that of `opentelemetry.sdk.trace` in the
same environment (the median of runs in turns), and the memory of a process that has imported it.
The last line is one JSON object. `--quick` leaves the peers out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "parts"))

from environments import bin_of  # noqa: E402

SDKS = {
    "ours": ("", "ratchet"),
    "mlflow-tracing": ("mlflow-tracing", "mlflow.tracing"),
    "langfuse": ("langfuse", "langfuse"),
    "arize-phoenix-otel": ("arize-phoenix-otel", "phoenix.otel"),
}
"""By name: what is installed, and the module that an agent imports."""

RUNS = 15

_INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
"""What a fresh environment has before anything is installed."""

_IMPORT = """
import resource, sys, time
begun = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def interpreter(name: str, requirement: str, scratch: Path) -> Path:
    """The interpreter of an environment with one SDK; ours is installed anew."""
    if not requirement:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(scratch)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        requirement = str(next(scratch.glob("*.whl")))
    return bin_of(f"footprint-{name}", requirement) / "python"


def installed(python: Path) -> tuple[int, float]:
    """Number of distributions, and megabytes of their files without compiled modules."""
    site = next((python.parents[1] / "lib").glob("python*/site-packages"))
    kept = [each for each in site.iterdir() if not each.name.startswith(_INSTALLERS)]
    files = [file for each in kept for file in (each, *each.rglob("*")) if file.is_file()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc")
    return sum(each.suffix == ".dist-info" for each in kept), size / 1e6


def imported(python: Path, module: str) -> tuple[float, float]:
    """Seconds of an import in a new process, and its memory in megabytes."""
    done = subprocess.run(
        [str(python), "-c", _IMPORT, module],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={"PATH": os.defpath},
    )
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def measure(python: Path, module: str, runs: int) -> dict[str, float]:
    """The figures of one SDK."""
    count, size = installed(python)
    imported(python, module)  # compiles
    own: list[tuple[float, float]] = []
    beside: list[float] = []
    for _ in range(runs):
        own.append(imported(python, module))
        beside.append(imported(python, "opentelemetry.sdk.trace")[0])
    seconds = statistics.median(each for each, _ in own)
    return {
        "distributions": count - 1,
        "mb": round(size, 1),
        "import_s": round(seconds, 3),
        "import_ratio": round(seconds / statistics.median(beside), 2),
        "rss_mb": round(statistics.median(memory for _, memory in own), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the peers")
    quick = parser.parse_args().quick
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (requirement, module) in SDKS.items():
            if quick and requirement:
                continue
            python = interpreter(name, requirement, Path(scratch))
            found[name] = measure(python, module, 3 if quick else RUNS)
            say(f"{name:>20}: {found[name]}")
    ours = found["ours"]
    peers = [figures for name, figures in found.items() if name != "ours"]
    bounds = {
        "at most 14 distributions": ours["distributions"] <= 14,
        "at most 45 MB": ours["mb"] <= 45,
        "fewest distributions": all(ours["distributions"] < p["distributions"] for p in peers),
        "smallest": all(ours["mb"] < p["mb"] for p in peers),
        "import at most 1.3 times OpenTelemetry's": quick or ours["import_ratio"] <= 1.3,
    }
    print(json.dumps({**found, "quick": quick}))
    if broken := [name for name, holds in bounds.items() if not holds]:
        sys.exit(f"These bounds do not hold: {', '.join(broken)}.")


if __name__ == "__main__":
    main()
