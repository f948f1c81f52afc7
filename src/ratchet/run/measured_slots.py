"""How many commands run at once, from what the first of them used of the processor."""

from __future__ import annotations

import resource


def slots_for(cpu_s: float, wall_s: float, *, cores: int, most: int) -> int:
    """The number of commands at once that the cores can keep up with.

    Args:
        cpu_s: Processor seconds of some commands.
        wall_s: Seconds that these took, each beside so few others that it waited for no core.
        cores: Number of cores.
        most: Maximum number of commands, for those that mostly wait.
    """
    share = cpu_s / wall_s if wall_s > 0 else 1.0
    return max(1, min(most, round(cores / share) if share > 0 else most))


class MeasuredSlots:
    """Runs one command per core at first, then as many as `slots_for` says.

    Args:
        cores: Number of cores.
        most: Maximum number of commands at once.
    """

    def __init__(self, cores: int, most: int) -> None:
        self.slots = min(cores, most)
        """Number of commands at once."""
        self._cores = cores
        self._most = most
        self._left = cores
        self._wall_s = 0.0
        self._cpu_before = _children_cpu_s()

    def ended(self, wall_s: float) -> None:
        """Take a command's end into account; it is reaped."""
        self._left -= 1
        self._wall_s += wall_s
        if self._left == 0:
            cpu_s = _children_cpu_s() - self._cpu_before
            self.slots = slots_for(cpu_s, self._wall_s, cores=self._cores, most=self._most)


def _children_cpu_s() -> float:
    """Processor seconds of all processes that this one has started and reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
