"""Programs that want to be taken for something else: forged answers, a rewritten evaluator."""

from __future__ import annotations

from typing import Any

from tests.sandbox.hostile.program import hostile


@hostile("ends at once, as if all were well", ends=("crashed",))
def exit_early(facts: dict[str, Any]) -> list[str]:
    import os

    os._exit(0)


@hostile("asks the interpreter to exit", ends=("raised",), raises=("SystemExit",))
def exit_politely(facts: dict[str, Any]) -> list[str]:
    import sys

    sys.exit(0)


@hostile("prints a forged answer and ends", ends=("crashed",))
def printed_answer(facts: dict[str, Any]) -> list[str]:
    import os

    print('{"status": "ok", "score": 1.0}', flush=True)
    os._exit(0)


@hostile("writes forged answers into every descriptor and ends", ends=("crashed",))
def forged_answer(facts: dict[str, Any]) -> list[str]:
    import os
    import struct

    content = b'["forged"]'
    for fd in range(3, 256):
        for nonce in (bytes(16), b"\xff" * 16):
            try:
                os.write(fd, struct.pack("=16sBQ", nonce, 1, len(content)) + content)
            except OSError:
                break
    os._exit(0)


@hostile("closes every descriptor", ends=("crashed", "raised"))
def closed(facts: dict[str, Any]) -> list[str]:
    import os

    os.closerange(0, 4096)
    return []


@hostile(
    "returns an object that runs code when it is unpickled", ends=("raised",), raises=("TypeError",)
)
def pickled(facts: dict[str, Any]) -> list[str]:
    import os

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, ("touch /tmp/unpickled",)

    return [Bomb()]  # type: ignore[list-item]


@hostile("answers with a pickle in place of JSON", ends=("crashed",))
def pickle_for_json(facts: dict[str, Any]) -> list[str]:
    import json
    import os
    import pickle

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, ("touch /tmp/unpickled",)

    class Text(str):
        def encode(self, *_: Any) -> bytes:
            return pickle.dumps(Bomb())

    json.dumps = lambda *_, **__: Text()
    return []


@hostile(
    "changes the modules, built-ins and settings that the next evaluation uses",
    ends=("ok", "raised", "crashed"),
    raises=("TypeError", "KeyError", "ImportError", "RecursionError"),
)
def rewriting(facts: dict[str, Any]) -> list[str]:
    import builtins
    import gc
    import json
    import os
    import random
    import signal
    import sys
    import time

    builtins.len = lambda _: 0
    builtins.open = None
    json.loads = json.dumps = None
    random.random = lambda: 0.0
    random.seed(0)
    time.time = lambda: 0.0
    sys.setrecursionlimit(50)
    sys.path[:] = []
    sys.stdout = None
    sys.modules.clear()
    os.environ.clear()
    os.umask(0o777)
    gc.disable()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return []


@hostile(
    "rewrites the evaluator: the functions that call it, through frames and modules",
    ends=("ok", "raised", "crashed"),
    raises=("TypeError", "AttributeError"),
)
def evaluator(facts: dict[str, Any]) -> list[str]:
    import gc
    import sys

    frame = sys._getframe().f_back
    while frame is not None:
        for name, value in list(frame.f_globals.items()):
            if callable(value) and not name.startswith("__"):
                frame.f_globals[name] = lambda *_, **__: b'["forged"]'
        frame = frame.f_back
    for each in gc.get_objects():
        if type(each).__name__ == "Confinement":
            each.on_request = lambda *_: None
    return []


@hostile("looks for the expected answers in every frame and object")
def frames(facts: dict[str, Any]) -> list[str]:
    import gc
    import sys

    seen = gc.get_objects()
    frame = sys._getframe().f_back
    while frame is not None:
        seen += list(frame.f_locals.values())
        frame = frame.f_back
    texts = [repr(each) for each in seen if isinstance(each, (str, bytes, dict, list, tuple))]
    wanted = "-".join(facts["expected_parts"])
    return ["found"] if any(wanted in text for text in texts) else []


@hostile("shows an error that cannot be shown", ends=("raised",), raises=("Unspeakable",))
def unspeakable(facts: dict[str, Any]) -> list[str]:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    raise Unspeakable


@hostile("answers with numbers that JSON has none for", ends=("raised",), raises=("TypeError",))
def not_a_number(facts: dict[str, Any]) -> list[str]:
    return [float("nan"), float("inf")]  # type: ignore[list-item]
