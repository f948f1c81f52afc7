"""Measures what redaction misses, what it removes wrongly, and what it costs.

    python benchmarks/redaction.py [--quick]

A seed plants secrets in prose, code, URLs, nested and truncated JSON, and in disguises; none of
them may remain. Ordinary text (docstrings of the standard library, and sentences with order
numbers, dates, versions, hashes, ids and code) should stay as it is; removals from it are counted.
E-mail and IP addresses in the docstrings are real addresses and counted separately. The last line
printed is one JSON object:

- planted, missed: planted secrets, and those of which a part remained
- words, false_positives, false_positives_per_10k_words: of ordinary text
- addresses: e-mail and IP addresses in the docstrings
- us_per_kb: microseconds of CPU time per kilobyte of stored chat without secrets, whose texts were
  never scanned before
- us_per_kb_seen: the same for texts scanned a moment ago
- us_per_kb_all_rules: of text in which every rule has to scan
- user_patterns_us_per_kb: cost of one pattern of a project's own
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).resolve().parent / "parts"))

from otlp_load import KINDS  # noqa: E402
from tests.observe.redaction import corpus, ordinary  # noqa: E402

from ratchet.observe.dialects import normalise  # noqa: E402
from ratchet.observe.redaction import RedactionRules, Redactor  # noqa: E402
from ratchet.types import Span  # noqa: E402

_MARK = re.compile(r"\[redacted:([a-z0-9_-]+)\]")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure_missed(redactor: Redactor, rounds: int) -> tuple[int, int]:
    """Number of secrets planted, and of those not removed."""
    total, missed = 0, Counter[str]()
    for one in corpus.planted(rounds=rounds):
        total += 1
        left = redactor.text(one.text)
        if any(needle in left for needle in one.needles):
            missed[f"{one.kind} in {one.place}"] += 1
    say(f"planted: {total} secrets, missed: {missed.total()} {dict(missed) or ''}")
    return total, missed.total()


def measure_false(redactor: Redactor, texts: Sequence[str]) -> Counter[str]:
    """Removals from ordinary text, by rule."""
    taken: Counter[str] = Counter()
    for text in texts:
        left = redactor.text(text)
        if left is not text:
            taken.update(_MARK.findall(left))
    return taken


def chat(words: Sequence[str]) -> list[Span]:
    """Spans of agents; no two hold the same text."""
    return [
        Span(
            trace_id="0" * 32,
            span_id="0" * 16,
            name=name,
            start_ns=0,
            end_ns=1,
            attributes={
                key: f"{value} {word}" if isinstance(value, str) else value
                for key, value in normalise(name, attributes()).items()
            },
        )
        for word in words
        for name, attributes in KINDS
    ]


def texts_of(span: Span) -> list[str]:
    """The texts of a span's attributes."""
    return [value for value in span.attributes.values() if isinstance(value, str)]


def cost_us_per_kb(work: Callable[[], object], characters: int, seconds: float) -> float:
    """CPU time of the fastest of several runs."""
    best = float("inf")
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or best == float("inf"):
        begun = time.process_time()
        for _ in range(20):
            work()
        best = min(best, (time.process_time() - begun) / 20)
    return best / characters * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    options = parser.parse_args()
    redactor = Redactor()
    planted, missed = measure_missed(redactor, 1 if options.quick else 10)

    docs = list(ordinary.docstrings())
    said = list(ordinary.sentences(count=1_000 if options.quick else 8_000))
    words = sum(len(text.split()) for text in (*docs, *said))
    in_docs, in_said = measure_false(redactor, docs), measure_false(redactor, said)
    addresses = in_docs.pop("email", 0) + in_docs.pop("ip", 0)
    false = (in_docs + in_said).total()
    say(f"ordinary text: {words} words, taken out {dict(in_docs)} and {dict(in_said)}")

    fresh = chat(["".join(letters) for letters in itertools.product("abcdefg", repeat=3)])
    seconds = 0.5 if options.quick else 3.0
    count = itertools.count()

    def unseen(redactor: Redactor) -> None:
        for _ in KINDS:
            redactor.span(fresh[next(count) % len(fresh)])

    size = sum(len(value) for span in fresh for value in texts_of(span)) * len(KINDS) // len(fresh)
    # Each text recurs only after more other texts than the cache holds.
    new = cost_us_per_kb(lambda: unseen(redactor), size, seconds)
    some = fresh[: len(KINDS)]
    size = sum(len(value) for span in some for value in texts_of(span))
    seen = cost_us_per_kb(lambda: [redactor.span(span) for span in some], size, seconds)
    dense = "\n".join(one.text for one in corpus.planted(rounds=1) if one.place == "prose")
    dense = "\n".join((dense, *said))[:100_000]
    # A text that was seen before is not scanned again.
    every = cost_us_per_kb(lambda: redactor.text(f"{next(count)} {dense}"), len(dense), seconds)
    own = Redactor(RedactionRules(patterns={"staff": r"EMP-\d{6}"}))
    with_own = cost_us_per_kb(lambda: unseen(own), size, seconds)
    say(
        f"chat {new:.1f}, seen before {seen:.1f}, with a pattern {with_own:.1f},"
        f" every rule {every:.0f} µs/KB of CPU time"
    )
    print(
        json.dumps(
            {
                "planted": planted,
                "missed": missed,
                "words": words,
                "false_positives": false,
                "false_positives_per_10k_words": round(false / words * 10_000, 2),
                "addresses": addresses,
                "us_per_kb": round(new, 2),
                "us_per_kb_seen": round(seen, 2),
                "us_per_kb_all_rules": round(every, 1),
                "user_patterns_us_per_kb": round(with_own - new, 2),
                "quick": options.quick,
            }
        )
    )
    if missed:
        raise SystemExit("a planted secret was left")


if __name__ == "__main__":
    main()
