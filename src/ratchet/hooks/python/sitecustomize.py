"""Starts the hook in this interpreter, then the sitecustomize that it has of its own."""

import os
import sys


def _begin(folder):  # type: ignore[no-untyped-def] # read by any Python
    # An interpreter that is too old for the hook runs without it.
    if sys.version_info >= (3, 8) and "RATCHET_RECORDING" in os.environ:
        from ratchet_recording_hook import begin  # type: ignore[import-not-found]

        begin.begin(os.environ["RATCHET_RECORDING"])
    elif sys.version_info >= (3, 8) and "RATCHET_MODEL_RELAY" in os.environ:
        from ratchet_recording_hook import redirect

        redirect.begin(os.environ["RATCHET_MODEL_RELAY"], os.environ["RATCHET_MODEL_HOSTS"])
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != folder]


def _chain():  # type: ignore[no-untyped-def]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_begin(os.path.dirname(os.path.abspath(__file__)))  # type: ignore[no-untyped-call]
_chain()  # type: ignore[no-untyped-call]
