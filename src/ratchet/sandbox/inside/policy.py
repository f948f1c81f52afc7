"""The system calls refused inside a sandbox, and the error that each returns."""

from __future__ import annotations

import errno

from .seccomp import Rule


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""

_NEVER = _names(
    """
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo move_pages migrate_pages
add_key request_key keyctl bpf perf_event_open userfaultfd
mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick
mount_setattr unshare setns name_to_handle_at open_by_handle_at fanotify_init
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff
acct quotactl quotactl_fd nfsservctl lookup_dcookie syslog vhangup
settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname
iopl ioperm modify_ldt execveat memfd_secret mq_open mq_notify
"""
)

_AS_IF_ABSENT = _names("io_uring_setup io_uring_enter io_uring_register memfd_create")
"""Programs try these calls first, and fall back on others if they are missing."""

_SYSTEM_V = _names("shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl")

_ATTRIBUTES = _names(
    """
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
file_setattr
"""
)
"""Landlock does not restrict these calls; without read-only mounts they could change any file."""

_OF_OTHERS = _names("prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr")
"""Calls whose first argument is a process id, 0 for the caller."""

_IOCTL_FAKES_INPUT = (0x5412, 0x541C)
_IOCTL_ATTRIBUTES = (0x40086602, 0x401C5820)
_KIND, _FILES_AND_PIPES = 0o170000, (0, 0o100000, 0o010000)
_FAST_OPEN = 0x20000000
_TRUNCATE = 0o1000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM = 1, 2


def base(*, mounts: bool, network: str, truncation: bool = True) -> tuple[Rule, ...]:
    """The rules for everything in a sandbox.

    Args:
        mounts: The file system is a separate view with read-only mounts (bubblewrap).
        network: `none`: no sockets; `relay`: TCP sockets; `loopback`: unix and internet sockets,
            for
            a separate network; `open`: those that reach the network.
        truncation: Landlock treats truncation as writing (since its version 3).
    """
    rules = [Rule(name) for name in _NEVER]
    rules += [Rule(name, errno.ENOSYS) for name in _AS_IF_ABSENT]
    rules += [
        # The flags of clone3 and openat2 are in memory, which a filter cannot read.
        Rule("clone3", errno.ENOSYS),
        Rule("clone", argument=0, mask=_NAMESPACES, values=(0,), refuse_these=False),
        Rule("personality", argument=0, values=(0, 0xFFFFFFFF), refuse_these=False),
        Rule("ioctl", argument=1, values=_IOCTL_FAKES_INPUT),
        Rule("setpriority", argument=0, values=(1, 2)),
        Rule("setpriority", argument=1, values=(0,), refuse_these=False),
        Rule("ioprio_set", argument=0, values=(1,), refuse_these=False),
        Rule("ioprio_set", argument=1, values=(0,), refuse_these=False),
    ]
    rules += [Rule(name, argument=0, values=(0,), refuse_these=False) for name in _OF_OTHERS]
    for name, mode in (("mknod", 1), ("mknodat", 2)):  # a named pipe, in a view of its own
        kinds = _FILES_AND_PIPES if mounts else ()
        rules.append(Rule(name, argument=mode, mask=_KIND, values=kinds, refuse_these=False))
    if not mounts:
        rules += [Rule(name) for name in _SYSTEM_V]
        rules += [Rule(name, 0) for name in _ATTRIBUTES]
        rules += [Rule("ioctl", argument=1, values=_IOCTL_ATTRIBUTES), Rule("truncate")]
    if not mounts and not truncation:
        emptying = (_TRUNCATE, _TRUNCATE | 3)  # with read access, or with the undocumented none
        mask = _TRUNCATE | 3
        rules.append(Rule("open", argument=1, mask=mask, values=emptying))
        rules.append(Rule("openat", argument=2, mask=mask, values=emptying))
        rules.append(Rule("openat2", errno.ENOSYS))
    return tuple(rules + _sockets(network))


def _sockets(network: str) -> list[Rule]:
    families: tuple[int, ...] = (_INET,)
    # A datagram socket of a pair can send to any other socket on the machine that has a path.
    rules = [Rule("socketpair", argument=1, mask=0xF, values=(_DATAGRAM,))]
    if network == "none":
        return [Rule("socket"), Rule("connect"), Rule("bind"), *rules]
    if network == "relay":
        rules += [Rule("socket", argument=1, mask=0xF, values=(_STREAM,), refuse_these=False)]
        rules += [Rule("socket", argument=2, values=(0, 6), refuse_these=False)]
        rules += [_fast_open("sendto", 3), _fast_open("sendmsg", 2), _fast_open("sendmmsg", 3)]
    elif network == "loopback":
        families, rules = (_UNIX, _INET, _INET6, _NETLINK), []
    elif network == "open":
        families = (_INET, _INET6, _NETLINK)
    return [Rule("socket", argument=0, values=families, refuse_these=False), *rules]


def new_processes() -> tuple[Rule, ...]:
    """Rules that submit the creation of processes and threads to the gate."""
    return tuple(Rule(name, notify=True) for name in ("clone", "clone3", "fork", "vfork"))


_WRITABLE = (1, 2)
_MODE, _CREATE = 3, 0o100
_CHANGES = _names(
    """
connect sendmsg sendmmsg execve execveat openat2 creat unlink unlinkat rename renameat renameat2
rmdir mkdir mkdirat link linkat symlink symlinkat truncate chmod fchmodat fchmodat2 chown lchown
fchownat utime utimes futimesat utimensat
"""
)
_OPENS = (("open", 1), ("openat", 2))


def acts(*, every_send: bool) -> tuple[Rule, ...]:
    """Rules that submit what a process does beyond its own process to a supervisor.

    Args:
        every_send: Also what is sent on a connected socket, where a query for a name may be.
    """
    rules = [Rule(name, notify=True) for name in _CHANGES]
    for name, flags in _OPENS:
        rules.append(Rule(name, argument=flags, mask=_MODE, values=_WRITABLE, notify=True))
        rules.append(Rule(name, argument=flags, mask=_CREATE, values=(_CREATE,), notify=True))
    if every_send:
        return (*rules, Rule("sendto", notify=True), *_ABSENT)
    for high in (False, True):  # an address is named
        refused = Rule(
            "sendto", argument=4, high=high, values=(0,), refuse_these=False, notify=True
        )
        rules.append(refused)
    return (*rules, *_ABSENT)


_CONTROLS = _names(
    """
ptrace process_vm_readv process_vm_writev pidfd_getfd pidfd_send_signal rt_sigqueueinfo
mount umount2 pivot_root move_mount open_tree fsopen unshare setns bpf perf_event_open
init_module finit_module kexec_load reboot
"""
)


def contained(*, mounts: bool, truncation: bool, scoped: bool) -> tuple[Rule, ...]:
    """Rules of a contained program: a supervisor decides about its acts; the rest is as in
    `base`.

    Args:
        mounts: Its file system and network are its own; else nothing but the supervisor's answers
            and Landlock's rules is between it and those of the machine.
        truncation: Landlock treats truncation as writing.
        scoped: Signals to processes outside are confined by other means.
    """
    # The first rule that matches decides.
    opens = (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
    rules = [] if mounts else [_fast_open(name, flags) for name, flags in opens]
    rules += [*acts(every_send=False), *(Rule(name, notify=True) for name in _CONTROLS)]
    rules.append(Rule("kill", notify=True))
    if not scoped:
        rules += [Rule(name, notify=True) for name in ("tkill", "tgkill")]
        rules.append(Rule("fcntl", argument=1, values=_SIGNALS_BY_FILE))
    rules.append(
        Rule("socket", argument=1, mask=0xF, values=(_STREAM,), refuse_these=False, notify=True)
    )
    return (*rules, *base(mounts=mounts, network="loopback", truncation=truncation))


def _fast_open(name: str, flags: int) -> Rule:
    """With this flag, sending opens a TCP connection that no rule on connections sees."""
    return Rule(name, argument=flags, mask=_FAST_OPEN, values=(_FAST_OPEN,))


_SIGNALS_BY_FILE = (8, 10, 15)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX"""

_ABSENT = tuple(
    Rule(name, errno.ENOSYS) for name in ("io_uring_setup", "io_uring_enter", "io_uring_register")
)
"""Without io_uring, programs use system calls that filters see."""


def one_request(*, own: int, scoped: bool, grouped: bool) -> tuple[Rule, ...]:
    """Additional rules for a request's process.

    Args:
        own: Its process id.
        scoped: Landlock confines signals; else a process may signal only itself.
        grouped: It and its descendants stay in one process group, by which they are ended.
    """
    rules: list[Rule] = []
    if grouped:
        rules += [Rule("setsid"), Rule("setpgid")]
    if not scoped:
        rules += [
            Rule("kill", argument=0, values=(0, own), refuse_these=False),
            Rule("tgkill", argument=0, values=(own,), refuse_these=False),
            Rule("tkill"),
            Rule("fcntl", argument=1, values=_SIGNALS_BY_FILE),
        ]
    return tuple(rules)
