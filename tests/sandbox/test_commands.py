"""Commands in a sandbox: repositories' tests and checkers."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet.sandbox import CommandResult, SandboxFailed, SandboxLimits, run

MIB = 1024 * 1024


def python(code: str, level: str, cwd: Path, **options: Any) -> CommandResult:
    options.setdefault("limits", SandboxLimits(seconds=30, processes=64))
    return run(
        [sys.executable, "-c", code], cwd=cwd, level=level, unsafe=level == "none", **options
    )


def test_a_command_runs_in_its_folder_and_its_end_is_told(level: str, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("data")
    ended = python("import sys; print(open('data.txt').read()); sys.exit(7)", level, tmp_path)
    assert (ended.status, ended.code, ended.output, ended.level) == ("ended", 7, "data\n", level)
    killed = python("import os; os.kill(os.getpid(), 15)", level, tmp_path)
    assert killed.code == -15


def test_it_writes_only_where_it_may(containing: str, tmp_path: Path) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    code = (
        "import os, tempfile\n"
        "open('written', 'w').close()\n"
        "tempfile.NamedTemporaryFile().close()\n"
        f"try:\n    open({str(tmp_path / 'other' / 'new')!r}, 'w').close()\n"
        "except OSError:\n    print('refused')\n"
    )
    mine = tmp_path / "mine"
    ended = python(code, containing, mine, writable=[mine], read=[tmp_path / "other"])
    assert (ended.code, ended.output) == (0, "refused\n")
    assert (mine / "written").exists()
    assert not (tmp_path / "other" / "new").exists()


def test_hidden_files_in_its_folder_cannot_be_read(containing: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("answers")
    ended = python(
        "open('tasks.jsonl').read()", containing, tmp_path, hide=[tmp_path / "tasks.jsonl"]
    )
    assert "PermissionError" in ended.output


def test_the_network_is_off_unless_it_is_given(containing: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection({server.getsockname()!r}, 5).close()"
        assert python(code, containing, tmp_path).code != 0
        assert python(code, containing, tmp_path, network=True).code == 0


def namespaces_may_be_made() -> bool:
    """Whether this kernel gives a process of anybody a network, and the rights over it."""
    code = (
        "import ctypes, sys\n"
        "refused = ctypes.CDLL(None).unshare(0x50000000)\n"
        "rights = open('/proc/self/status').read().split('CapEff:')[1].split()[0]\n"
        "sys.exit(bool(refused) or int(rights, 16) == 0)\n"
    )
    return subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0


OWN_SERVER = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
"""


def test_tests_with_servers_of_their_own_work_where_there_is_a_network_namespace(
    containing: str, tmp_path: Path
) -> None:
    ended = python(OWN_SERVER, containing, tmp_path)
    may = containing == "bubblewrap" or namespaces_may_be_made()
    assert (ended.code == 0) == may, ended.output


def test_a_network_of_its_own_has_nobody_else_in_it(containing: str, tmp_path: Path) -> None:
    if containing == "landlock" and not namespaces_may_be_made():
        pytest.skip("this kernel makes no namespaces for this user")
    folder, path = tmp_path / "mine", tmp_path / "daemon"
    folder.mkdir()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as daemon,
        socket.socket(socket.AF_UNIX) as unnamed,
    ):
        daemon.bind(str(path))
        daemon.listen()
        unnamed.bind(f"\0{path}")
        unnamed.listen()
        code = (
            "import socket\n"
            "def tried(family, address):\n"
            "    try:\n"
            "        socket.socket(family).connect(address)\n"
            "    except OSError as error:\n"
            "        return error.errno\n"
            f"print(tried(socket.AF_INET, {server.getsockname()!r}),"
            f" tried(socket.AF_UNIX, {str(path)!r}), tried(socket.AF_UNIX, {chr(0) + str(path)!r}),"
            " tried(socket.AF_INET, ('192.0.2.1', 80)))\n"
        )
        ended = python(code, containing, folder)
    assert ended.code == 0, ended.output
    told = ended.output.split()
    assert "None" not in told, told
    assert told[0] == str(errno.ECONNREFUSED)
    assert told[3] == str(errno.ENETUNREACH)


def test_output_of_any_length_is_kept_at_both_ends(level: str, tmp_path: Path) -> None:
    code = "print('first'); print('x' * 3_000_000); print('last')"
    limits = SandboxLimits(seconds=30, output_bytes=1000)
    ended = python(code, level, tmp_path, limits=limits)
    assert ended.code == 0
    assert ended.output.startswith("first\n")
    assert ended.output.endswith("xx\nlast\n")
    assert "bytes omitted" in ended.output
    assert len(ended.output) < 1100


def test_all_that_it_started_ends_with_it(level: str, tmp_path: Path) -> None:
    mark = f"left-{os.getpid()}-{tmp_path.name}"
    code = (
        "import subprocess, sys\n"
        "for session in (True, False):\n"
        "    subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(900)',"
        f" {mark!r}], start_new_session=session)\n"
        "if sys.argv[1:]: import time; time.sleep(900)\n"
    )
    assert python(code, level, tmp_path).code == 0
    late = run(
        [sys.executable, "-c", code, "stay"],
        cwd=tmp_path,
        limits=SandboxLimits(seconds=0.5),
        level=level,
        unsafe=level == "none",
    )
    assert (late.status, late.code) == ("timed_out", None)
    assert late.error == "It did not finish within 0.5 s."
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            assert mark.encode() not in (folder / "cmdline").read_bytes()


def test_memory_and_processes_are_limited(level: str, tmp_path: Path) -> None:
    limits = SandboxLimits(seconds=30, memory_bytes=80 * MIB, processes=8)
    hungry = python("x = b'x' * 300_000_000; input()", level, tmp_path, limits=limits)
    assert hungry.status in ("memory", "ended")
    endless = "import time\nx = b'x' * 200_000_000\ntime.sleep(60)"
    assert python(endless, level, tmp_path, limits=limits).status == "memory"
    many = (
        "import threading, time\n"
        "try:\n"
        "    for n in range(100): threading.Thread(target=time.sleep, args=(9,), daemon=True)"
        ".start()\n"
        "except RuntimeError: print(n)\n"
    )
    ended = python(many, level, tmp_path, limits=limits)
    assert ended.output == "7\n"


def test_the_environment_is_what_was_given(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    code = "import os; print(sorted(os.environ))"
    ended = python(code, level, tmp_path, environment={"GIVEN": "1"})
    assert "'GIVEN'" in ended.output
    assert "OPENAI_API_KEY" not in ended.output
    assert "'HOME'" in ended.output


@pytest.mark.parametrize("command", [["no-such-program"], ["/etc"], [""]])
def test_a_program_that_cannot_be_started_is_told(
    level: str, tmp_path: Path, command: list[str]
) -> None:
    with pytest.raises(SandboxFailed, match=r"cannot be started: \[Errno \d+\] "):
        run(command, cwd=tmp_path, level=level, unsafe=level == "none")
    with pytest.raises(SandboxFailed, match="cannot be started"):
        run(["true"], cwd=tmp_path / "absent", level=level, unsafe=level == "none")
