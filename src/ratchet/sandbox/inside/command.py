"""Run one command in a sandbox, and watch over the processes it starts."""

from __future__ import annotations

import os
import signal

from . import confine, kernel, network, process_table, protocol, scratch
from .confine import Confinement
from .process_gate import ProcessGate, program
from .watch import ProcessWatch

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any, NoReturn


def run(control: int, config: dict[str, Any]) -> NoReturn:
    """Run the command to its end, report the result, and exit.

    This process runs nothing else. It is the first process of its namespace, or else adopts
    orphaned
    descendants: none of the command's processes outlives it.

    Args:
        control: The descriptor of the control socket.
        config: `command`, `cwd`, `environment`, `limits`, and what `confine.Confinement` needs.
    """
    control_socket = protocol.ControlSocket(control)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        kernel.prefer_for_oom_kill()
        kernel.dumpable(False)
        if os.getpid() != 1:
            kernel.adopt_orphans()
        gate = ProcessGate(program())
        pid = _started(config, gate)
    except Exception as error:
        control_socket.send(protocol.SETUP_FAILED, str(error).encode()[: protocol.MAX_TEXT_BYTES])
        os._exit(1)
    watch = ProcessWatch(
        pid,
        control_socket,
        gate,
        config["limits"],
        folder=config["scratch"],
        mounted=config["level"] == "bubblewrap",
    )
    verdict, _ = watch.until_ended()
    _, status, used = os.wait4(pid, 0)
    process_table.end_all(os.getpid())
    if config["level"] != "bubblewrap":
        scratch.remove(config["scratch"])
    code = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    control_socket.send(
        protocol.REQUEST_ENDED, protocol.END_LAYOUT.pack(0, verdict, code, cpu, True)
    )
    os._exit(0)


def _started(config: dict[str, Any], gate: ProcessGate) -> int:
    """Start the command and return its process id.

    Raises:
        OSError: It cannot be executed.
    """
    error_reader, error_writer = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid:
        gate.forked()
        os.close(error_writer)
        with os.fdopen(error_reader, "rb") as reading:
            failed = reading.read()
        if failed:
            os.waitpid(pid, 0)
            number, _, text = failed.decode(errors="replace").partition(" ")
            raise OSError(int(number), text)
        return pid
    try:
        environ: dict[str, str] = config["environment"]
        environ["HOME"] = environ["TMPDIR"] = config["scratch"]
        kernel.die_with_parent(signal.SIGKILL)
        os.chdir(config["cwd"])
        _limit(config["limits"])
        if (
            config["level"] == "landlock"
            and config["network"] == "none"
            and network.enter_own_network()
        ):
            config |= {
                "network": "open",
                "ports": None,
            }  # its network contains nothing else to reach
        Confinement(config).on_command()
        gate.enter()
        for signal_number in range(1, signal.NSIG):
            try:
                signal.signal(signal_number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue
        os.execvpe(config["command"][0], config["command"], environ)  # noqa: S606
    except OSError as error:
        os.write(error_writer, f"{error.errno or 0} {error.strerror or error}".encode())
    except BaseException as error:
        os.write(error_writer, f"0 {error}".encode())
    finally:
        os._exit(127)


def _limit(limits: dict[str, Any]) -> None:
    import resource

    confine.limit(resource.RLIMIT_FSIZE, limits["scratch"])
    confine.limit(resource.RLIMIT_CORE, 0)
    if limits["cpu"] is not None:
        confine.limit(resource.RLIMIT_CPU, limits["cpu"], warning=1)
