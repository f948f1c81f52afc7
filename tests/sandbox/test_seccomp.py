"""Filters of system calls, run here by a small machine that does what the kernel's does."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

import pytest

from ratchet.sandbox.inside import policy, seccomp, syscalls
from ratchet.sandbox.inside.seccomp import Rule, compiled

ALLOW, KILL, ASK = 0x7FFF0000, 0x80000000, 0x7FC00000


@pytest.fixture(params=[syscalls.X86_64, syscalls.AARCH64])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Each architecture in turn."""
    column = {syscalls.X86_64: 1, syscalls.AARCH64: 2}[request.param]
    known = request.param, syscalls._table(column)
    monkeypatch.setattr(seccomp, "architecture", lambda: known)
    return int(request.param)


def decided(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the filter says to a call."""
    call = struct.pack("=IIQ6Q", number, architecture, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = held = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            held = struct.unpack_from("=I", call, value)[0]
        elif code == 0x54:
            held &= value
        elif code == 0x06:
            return int(value)
        else:
            true = held == value if code == 0x15 else held >= value
            at += if_true if true else if_false


def number(name: str) -> int:
    known = seccomp.architecture()
    assert known is not None
    return known[1][name]


def refused(error: int) -> int:
    return 0x00050000 | error


def everything() -> Iterator[tuple[Rule, ...]]:
    for network in ("none", "relay", "loopback", "open"):
        for mounts in (True, False):
            yield policy.base(mounts=mounts, network=network, truncation=False)
    yield policy.one_request(own=77, scoped=False, grouped=True)
    yield policy.new_processes()


def test_a_rule_looks_at_the_bits_of_its_argument(machine: int) -> None:
    rules = (
        Rule("prlimit64", argument=0, values=(0,), refuse_these=False),
        Rule("ioctl", 5, argument=1, mask=0xF0, values=(0x10, 0x20)),
    )
    program = compiled(rules)
    assert decided(program, machine, number("prlimit64"), 0) == ALLOW
    assert decided(program, machine, number("prlimit64"), 12) == refused(errno.EPERM)
    assert decided(program, machine, number("ioctl"), 0, 0x2F) == refused(5)
    assert decided(program, machine, number("ioctl"), 0, 0x3F) == ALLOW
    assert decided(program, machine, number("ioctl"), 0x10, 0) == ALLOW


def test_another_architecture_is_killed_and_the_second_interface_refused(machine: int) -> None:
    program = compiled(())
    other = {syscalls.X86_64, syscalls.AARCH64} - {machine}
    assert decided(program, other.pop(), 0) == KILL
    assert decided(program, 0x40000003, 20) == KILL  # i386
    if machine == syscalls.X86_64:
        assert decided(program, machine, 0x40000000 | 41) == refused(errno.ENOSYS)


def test_new_namespaces_are_refused_and_threads_are_not(machine: int) -> None:
    program = compiled(policy.base(mounts=True, network="none"))
    threads, user_namespace = 0x003D0F00, 0x10000000
    assert decided(program, machine, number("clone"), threads) == ALLOW
    assert decided(program, machine, number("clone"), user_namespace | 17) == refused(1)
    assert decided(program, machine, number("clone3")) == refused(errno.ENOSYS)


def test_without_scopes_a_process_signals_only_itself(machine: int) -> None:
    program = compiled(policy.one_request(own=77, scoped=False, grouped=True))
    assert decided(program, machine, number("kill"), 77, 9) == ALLOW
    assert decided(program, machine, number("kill"), 78, 9) == refused(1)
    assert decided(program, machine, number("kill"), 0xFFFFFFFF, 9) == refused(1)
    assert decided(program, machine, number("setsid")) == refused(1)


def test_a_relay_has_tcp_and_nothing_else(machine: int) -> None:
    program = compiled(policy.base(mounts=False, network="relay"))
    stream_not_blocking = 1 | 0o4000
    assert decided(program, machine, number("socket"), 2, stream_not_blocking, 6) == ALLOW
    assert decided(program, machine, number("socket"), 2, 2, 0) == refused(1)
    assert decided(program, machine, number("socket"), 1, 1, 0) == refused(1)
    assert decided(program, machine, number("sendto"), 0, 0, 0, 0x20000000) == refused(1)


def test_new_processes_are_asked_about(machine: int) -> None:
    program = compiled(policy.new_processes())
    assert decided(program, machine, number("clone"), 17) == ASK


def test_every_rule_names_a_known_call_and_every_filter_ends_in_an_answer(machine: int) -> None:
    known = set(syscalls._table(1)) | set(syscalls._table(2))
    for rules in everything():
        assert {rule.name for rule in rules} <= known
        program = compiled(rules)
        assert len(program) // 8 < 4096
        for call in range(480):
            decided(program, machine, call, 1, 2, 3)


def test_of_the_numbers_that_the_machine_has_ours_are_the_same() -> None:
    import re
    from pathlib import Path

    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    theirs = dict(re.findall(r"#define __NR_(\w+) (\d+)", header.read_text()))
    ours = syscalls._table(1)
    assert {n: ours[n] for n in ours if n in theirs} == {
        n: int(theirs[n]) for n in ours if n in theirs
    }
