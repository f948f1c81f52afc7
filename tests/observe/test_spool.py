"""The spool: in order, bounded, read by one process only, and whole after any kind of death."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.observe.spool import MAGIC, SUFFIX, MemoryBacklog, Spool, SpoolFrame, waits


def frame(number: int, size: int = 0) -> SpoolFrame:
    return SpoolFrame(f"[{number}]".encode() + b" " * size, number)


def drain(spool: Spool) -> list[int]:
    found = []
    while (first := spool.first()) is not None:
        found.append(int(first.data.strip()[1:-1]))
        spool.done()
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def test_batches_come_back_in_order_and_leave_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a" / "b", segment_bytes=100)
    for number in range(1, 21):
        spool.append(frame(number))
    assert len(files(tmp_path / "a" / "b")) > 1
    assert spool.records() == sum(range(1, 21))
    assert drain(spool) == list(range(1, 21))
    assert not files(tmp_path / "a" / "b")
    assert (spool.records(), spool.lost) == (0, 0)


@pytest.mark.parametrize("kind", [Spool, MemoryBacklog])
def test_the_oldest_batches_are_read_together_within_limits(
    tmp_path: Path, kind: type[Spool] | type[MemoryBacklog]
) -> None:
    backlog = Spool(tmp_path) if kind is Spool else MemoryBacklog()
    for number in (5, 1, 2, 3):
        backlog.append(frame(number, size=100))

    def oldest(records: int, size: int = 1_000) -> list[int]:
        return [each.records for each in backlog.oldest(records, size)]

    assert oldest(1) == [5], "one at least"
    assert oldest(8) == [5, 1, 2]
    assert oldest(100, 250) == [5, 1]
    backlog.done(2)
    assert oldest(100) == [2, 3]
    backlog.done(2)
    assert oldest(100) == []


def test_the_next_process_finds_what_one_left_behind(tmp_path: Path) -> None:
    left = Spool(tmp_path)
    for number in (1, 2, 3):
        left.append(frame(number))
    left.first()
    left.done()
    left.close()
    assert waits(tmp_path)
    # The first batch may be sent again: what was done is known in memory alone.
    assert drain(Spool(tmp_path)) == [1, 2, 3]
    assert not waits(tmp_path)


def test_a_process_that_lives_keeps_its_own(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(frame(1))
    other = Spool(tmp_path)
    assert other.first() is None
    other.append(frame(2))
    assert drain(other) == [2]
    assert drain(spool) == [1]


def test_another_process_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from ratchet.observe.spool import SpoolFrame, Spool\n"
        "spool = Spool(Path(sys.argv[1]))\n"
        "for n in (1, 2): spool.append(SpoolFrame(b'[%d]' % n, n))\n"
        "print('written', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        spool = Spool(tmp_path)
        assert spool.first() is None, "it is locked by its writer"
        process.kill()
    assert drain(Spool(tmp_path)) == [1, 2]


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 14])
def test_a_torn_end_is_noticed_and_what_is_whole_is_sent(tmp_path: Path, cut: int) -> None:
    spool = Spool(tmp_path)
    for number in (1, 2, 3):
        spool.append(frame(number))
    spool.close()
    (path,) = files(tmp_path)
    os.truncate(path, path.stat().st_size - cut)
    again = Spool(tmp_path)
    assert drain(again) == [1, 2]
    assert not files(tmp_path)


def test_a_damaged_batch_is_passed_over_and_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in (1, 2, 3):
        spool.append(frame(number))
    spool.close()
    (path,) = files(tmp_path)
    whole = bytearray(path.read_bytes())
    at = len(MAGIC) + 2 * 12 + len(frame(1).data) + 1
    whole[at] ^= 0xFF
    path.write_bytes(bytes(whole))
    again = Spool(tmp_path)
    assert drain(again) == [1, 3]
    assert again.lost == 2


def test_a_length_that_cannot_be_is_the_end(tmp_path: Path) -> None:
    path = tmp_path / f"1{SUFFIX}"
    path.write_bytes(MAGIC + b"\xff" * 40)
    spool = Spool(tmp_path)
    assert drain(spool) == []
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", MAGIC[:5]])
def test_a_segment_that_was_barely_begun_is_removed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"1{SUFFIX}"
    path.write_bytes(content)
    assert drain(Spool(tmp_path)) == []
    assert not path.exists()


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    for name in (f"theirs{SUFFIX}", "notes.txt"):
        (tmp_path / name).write_bytes(b"something quite different, and longer than a first line")
    (tmp_path / f"folder{SUFFIX}").mkdir()
    spool = Spool(tmp_path)
    spool.append(frame(1))
    assert drain(spool) == [1]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"theirs{SUFFIX}", "notes.txt", f"folder{SUFFIX}"
    }  # fmt: skip


def test_the_oldest_are_given_up_when_there_is_no_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=5_000, segment_bytes=1_000)
    for number in range(1, 41):
        spool.append(frame(number, size=300))
    size = sum(path.stat().st_size for path in files(tmp_path))
    assert size <= 5_000 + 1_000
    left = drain(spool)
    assert left == list(range(41 - len(left), 41)), "the newest are there, in order"
    assert spool.lost == sum(range(1, 41)) - sum(left)


def test_others_may_not_read_what_waits(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(frame(1))
    (path,) = files(tmp_path / "spool")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_disk_that_is_full_leaves_what_was_written_before(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from ratchet.observe.spool import SpoolFrame, Spool\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))\n"
        "spool = Spool(Path(sys.argv[1]))\n"
        "written = []\n"
        "for n in range(1, 9):\n"
        "    try:\n"
        "        spool.append(SpoolFrame(b'[%d]' % n + b' ' * 300, n))\n"
        "        written.append(n)\n"
        "    except OSError: pass\n"
        "print(written)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    written = json.loads(ran.stdout or "[]")
    assert 4 < len(written) < 8, ran.stderr
    assert drain(Spool(tmp_path)) == written


def test_a_backlog_in_memory_is_bounded() -> None:
    backlog = MemoryBacklog(max_bytes=100)
    for number in range(1, 11):
        backlog.append(frame(number, size=30))
    first = backlog.first()
    assert first is not None
    assert first.records == 8
    assert backlog.lost == sum(range(1, 8))


@pytest.mark.parametrize("recreated", [False, True])
def test_a_segment_that_another_process_sends_while_it_is_opened_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recreated: bool
) -> None:
    left_behind = Spool(tmp_path)
    left_behind.append(SpoolFrame(b"once", 1))
    left_behind.close()
    (path,) = tmp_path.iterdir()
    flock, between = fcntl.flock, [True]

    def late_flock(file: int, how: int) -> None:
        if between:  # the segment is open, and not locked yet
            between.clear()
            other = Spool(tmp_path)
            assert other.first() == SpoolFrame(b"once", 1)
            other.done()
            if recreated:
                path.write_bytes(MAGIC)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late_flock)
    assert Spool(tmp_path).first() is None
