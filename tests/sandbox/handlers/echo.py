"""A handler that tells what it sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

PREPARED = 0


def prepare(setup: bytes) -> dict[str, Any]:
    """Count how often, and keep the setup."""
    global PREPARED
    PREPARED += 1
    return {"setup": setup.decode(), "changed": 0}


def handle(state: dict[str, Any], body: bytes) -> bytes:
    """Do what the body says."""
    word, _, rest = body.decode().partition(" ")
    if word == "state":
        state["changed"] += 1
        return json.dumps({**state, "prepared": PREPARED}).encode()
    if word == "length":
        return str(len(body)).encode()
    if word == "answer":
        return b"x" * int(rest)
    if word == "sleep":
        time.sleep(float(rest))
        return b"slept"
    if word == "text":
        return "not bytes"  # type: ignore[return-value]
    if word == "read":
        with open(rest, "rb") as file:
            return file.read()
    if word == "environ":
        return json.dumps(dict(os.environ)).encode()
    if word == "write":
        with open("here", "w") as file:
            file.write(rest)
        return json.dumps([os.getcwd(), os.listdir()]).encode()
    if word == "children":
        code = "import time; time.sleep(900)"
        subprocess.Popen([sys.executable, "-S", "-c", code, rest])
        threading.Thread(target=time.sleep, args=(900,), daemon=True).start()
        return b"started"
    if word == "hang":
        code = "import time; time.sleep(900)"
        subprocess.Popen([sys.executable, "-S", "-c", code, rest])
        print("hanging", flush=True)
        time.sleep(900)
    raise LookupError(word)
