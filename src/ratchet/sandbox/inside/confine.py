"""Apply limits and rules to this process, which its children inherit."""

from __future__ import annotations

import resource

from . import kernel, landlock, policy, seccomp

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any


class Confinement:
    """The rules of one sandbox, created once and applied to its processes.

    Args:
        config: `level`, `network`, `landlock` (version, 0 for none), `rules`, `ports`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._level: str = config["level"]
        self._api: int = config["landlock"]
        self._program = b""
        self._files: landlock.Ruleset | None = None
        self._whole: landlock.Ruleset | None = None
        if self._level == "none":
            return
        self._program = seccomp.compiled(
            policy.base(
                mounts=self._level == "bubblewrap",
                network=config["network"],
                truncation=self._api >= landlock.TRUNCATION_FROM,
            )
        )
        if self._api:
            ports = tuple(config["ports"]) if config["ports"] is not None else None
            rules = [tuple(rule) for rule in config["rules"]]
            self._files = landlock.Ruleset(rules, ports=ports, api=self._api)
            # The watcher reads about the others in /proc; they must not.
            watching = [*rules, ("/proc", landlock.READ_ACCESS)]
            self._whole = landlock.Ruleset(watching, ports=ports, api=self._api)

    def on_watcher(self) -> None:
        """Confine the process that imports the code and forks the requests.

        Raises:
            OSError: The kernel refused a rule.
        """
        kernel.no_new_privileges()
        if self._level == "none":
            return
        kernel.dumpable(False)
        kernel.drop_capabilities()
        if self._whole is not None:
            self._whole.restrict()
        seccomp.install(self._program)

    def on_request(self, own: int) -> None:
        """Confine a request's process, forked by a watcher.

        Raises:
            OSError: The kernel refused a rule.
        """
        if self._level == "none":
            return
        if self._files is not None:
            self._files.restrict()
            self._files.close()
        more = policy.one_request(
            own=own,
            scoped=self._api >= landlock.SIGNALS_FROM or self._level == "bubblewrap",
            grouped=self._level != "bubblewrap",
        )
        if more:
            seccomp.install(seccomp.compiled(more))
        # Only its own watcher may read its descriptors.
        kernel.dumpable(self._level != "bubblewrap")

    def on_command(self) -> None:
        """Confine a command, started by a keeper that is not confined.

        Raises:
            OSError: The kernel refused a rule.
        """
        kernel.no_new_privileges()
        if self._level == "none":
            return
        kernel.drop_capabilities()
        if self._files is not None:
            self._files.restrict()
            self._files.close()
        seccomp.install(self._program)


def limit(which: int, value: int, warning: int = 0) -> None:
    """Set a resource limit, unless a stricter one is set.

    Args:
        which: The resource.
        value: Its soft limit.
        warning: How far above it the hard limit is.
    """
    hard = resource.getrlimit(which)[1]
    if hard == resource.RLIM_INFINITY:
        hard = value + warning
    resource.setrlimit(which, (min(value, hard), min(value + warning, hard)))


def limit_request(limits: dict[str, Any], mapped: int) -> None:
    """Set the resource limits of a request's process.

    Args:
        limits: `memory`, `cpu` and `scratch`.
        mapped: Bytes of address space that it has mapped already.
    """
    limit(resource.RLIMIT_AS, mapped + limits["memory"])
    # The soft limit sends a signal of its own; a process that ignores it is killed at the hard one.
    limit(resource.RLIMIT_CPU, limits["cpu"], warning=1)
    limit(resource.RLIMIT_FSIZE, limits["scratch"])
    limit(resource.RLIMIT_NOFILE, 256)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_MSGQUEUE, 0)
    limit(resource.RLIMIT_MEMLOCK, 65_536)
    limit(resource.RLIMIT_SIGPENDING, 256)
