"""How fast a local model answers, by slots and threads, and what a shared beginning saves.

    python benchmarks/local_models.py qwen2.5-coder-1.5b --slots 1 4 --threads 1 2 --requests 8

The name is one that `ratchet model` takes; several may follow one another. Each request is a ticket
under house rules: a prompt of some 350 tokens, whose beginning is the same for all, and an answer
of exactly 60 tokens.
For each setting the model is served anew. First every slot is asked once, so that each has read the
rules ("cold"); then as many clients as there are slots ask the rest ("warm").

Printed is a line of JSON for each setting: seconds and CPU seconds of the model's process per
request, tokens written a second, and tokens of a prompt that were reused. CPU seconds say more
where the machine has other work, whose load average is given. The last line is one JSON object with
all of them. With --quick it is SmolLM2 alone with two settings, if it is in the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import psutil

from ratchet.models import LocalModel, ModelFile, ModelUnavailable, find_model
from ratchet.models.box import BOX, SMOLLM2
from ratchet.models.local_model import require_engine

WRITTEN = 60
"""Tokens of an answer."""

TOPICS = ("billing", "login", "parcels", "repairs", "prices", "press", "legal", "outages", "wishes")

RULES = "You route support tickets. House rules:\n" + "\n".join(
    f"{number}. Tickets about {topic} belong to the team {topic}-desk and are answered within"
    f" {number + 2} hours, unless the customer has been with us for less than {number} years."
    for number, topic in enumerate(TOPICS, 1)
)


def ask(client: openai.OpenAI, number: int) -> Any:
    """The usage of one answer."""
    ticket = (
        f"Ticket {number}: my order {number * 7919 % 10007} has a problem with"
        f" {TOPICS[number % len(TOPICS)]}, and I have been a customer since {1990 + number % 30}."
    )
    answer = client.chat.completions.create(
        model="any",
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": ticket}],
        max_tokens=WRITTEN,
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    return answer.usage


def measured(file: ModelFile, slots: int, threads: int, requests: int) -> dict[str, Any]:
    """One setting."""
    with (
        LocalModel(file, slots=slots, threads=threads, context=1024) as model,
        openai.OpenAI(
            base_url=model.base_url, api_key=model.key, max_retries=0, timeout=600
        ) as client,
        ThreadPoolExecutor(slots) as clients,
    ):
        process = psutil.Process(model.pid)
        found: dict[str, Any] = {"model": file.name, "slots": slots, "threads": threads}
        for name, numbers in (("cold", range(slots)), ("warm", range(slots, slots + requests))):
            found[name] = timed(process, client, clients, numbers)
        return found


def timed(
    process: psutil.Process, client: openai.OpenAI, clients: ThreadPoolExecutor, numbers: range
) -> dict[str, float]:
    """What the requests of these numbers took."""

    def cpu() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    begun, cpu_before = time.perf_counter(), cpu()
    usages = list(clients.map(lambda number: ask(client, number), numbers))
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds / len(numbers), 2),
        "cpu_seconds": round((cpu() - cpu_before) / len(numbers), 2),
        "tokens_a_second": round(sum(usage.completion_tokens for usage in usages) / seconds, 1),
        "prompt_tokens": round(mean(usage.prompt_tokens for usage in usages)),
        "reused_tokens": round(mean(usage.prompt_tokens_details.cached_tokens for usage in usages)),
        "load": round(os.getloadavg()[0], 1),
    }


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=["qwen2.5-coder-0.5b"])
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.names, options.slots, options.threads = [SMOLLM2], [2], [1, 2]
        options.requests = 2
    settings = []
    try:
        require_engine()
        if options.quick and not BOX[SMOLLM2].is_fetched:
            raise ModelUnavailable("SmolLM2 is not in the cache: ratchet model smollm2 --fetch")
        for name in options.names:
            file = find_model(name, lambda text: print(text, file=sys.stderr))
            for slots in options.slots:
                for threads in options.threads:
                    settings.append(measured(file, slots, threads, options.requests))
                    print(json.dumps(settings[-1]), file=sys.stderr, flush=True)
    except ModelUnavailable as error:
        print(f"{error} {error.hint or ''}", file=sys.stderr)
        print(json.dumps({"settings": [], "reason": str(error)}))
        return 0 if options.quick else 2
    print(json.dumps({"settings": settings}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
