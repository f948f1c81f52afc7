"""A program is watched as it goes on: what it contacts, starts, writes and deletes is named."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.sandbox.acts import Act, Watch

ACTS = """
import ctypes, os, pathlib, shutil, socket, subprocess, sys
port, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
with socket.create_connection(("localhost", port)) as there:
    there.sendall(b"hello")
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port))
subprocess.run(["ls", str(folder)], stdout=subprocess.DEVNULL, check=True)
(folder / "made.txt").write_text("here")
(folder / "kept.txt").read_text()
getattr(shutil, "rmtree")(folder / "old")
ctypes.CDLL(None).unlink(str(folder / "gone.txt").encode())
os.replace(folder / "made.txt", folder / "renamed.txt")
raise SystemExit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve()
    (place / "old").mkdir()
    for name in ("old/one.txt", "kept.txt", "gone.txt"):
        (place / name).write_text("there")
    return place


def test_a_program_goes_on_as_ever_and_what_it_does_outside_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        watch = Watch()
        process = watch.start([sys.executable, "-c", ACTS, str(port), str(folder)])
        assert process.wait(30) == 7, watch.failed
        with server.accept()[0] as there:
            assert there.recv(5) == b"hello"
    done = {(act.kind, act.subject, act.port): act.count for act in watch.acts()}
    assert done.pop(("connect", "localhost", port)) == 2
    program = str(Path(shutil.which("ls") or "").absolute())
    assert ("program", program, 0) in done
    assert {key[:2] for key in done if key[0] != "program"} == {
        ("write", f"{folder}/made.txt"),
        ("write", f"{folder}/renamed.txt"),
        ("delete", f"{folder}/made.txt"),
        ("delete", f"{folder}/old/one.txt"),
        ("delete", f"{folder}/old"),
        ("delete", f"{folder}/gone.txt"),
    }
    assert sorted(path.name for path in folder.iterdir()) == ["kept.txt", "renamed.txt"]


def test_a_program_in_another_language_is_watched_in_the_same_way(folder: Path) -> None:
    watch = Watch()
    script = 'echo made >"$0/made.txt"; rm "$0/gone.txt"'
    process = watch.start(["/bin/sh", "-c", script, str(folder)])
    assert process.wait(30) == 0
    done = [act for act in watch.acts() if act.kind != "program"]
    assert done == [Act("write", f"{folder}/made.txt"), Act("delete", f"{folder}/gone.txt")]


def test_its_output_exit_and_signal_are_those_of_the_program() -> None:
    watch = Watch()
    process = watch.start(
        ["/bin/sh", "-c", "cat; echo $WORD; kill -TERM $$"],
        env={"WORD": "here", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.communicate(b"said ", 30)[0] == b"said here\n"
    assert process.returncode == -15


def test_what_it_leaves_running_ends_with_it(folder: Path) -> None:
    watch = Watch()
    late = f"(sleep 0.3; touch {folder}/late) >/dev/null 2>&1 &"
    process = watch.start(["setsid", "/bin/sh", "-c", late])
    assert process.wait(30) == 0
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["tail", "--retry", "-f", f"{folder}/late"], timeout=0.6, check=False)
    assert not (folder / "late").exists()


def test_a_program_that_is_not_there_is_said_to_be_missing() -> None:
    watch = Watch()
    assert watch.start(["no-such-program-here"]).wait(30) == 127
    assert "No such file" in watch.failed
