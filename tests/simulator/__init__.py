"""A simulator of a task model and a coach: an OpenAI-compatible server without any real model.

`simulated-task` books meeting rooms and obeys only the rules that its prompt states.
`simulated-coach` criticises and rewrites prompts and code in whatever form it is asked to.

    python -m tests.simulator --port 0 --latency-ms 200 --seed 1
"""

from tests.simulator.running import Address, SimulatorProcess, SimulatorThread
from tests.simulator.server import Settings

__all__ = ["Address", "Settings", "SimulatorProcess", "SimulatorThread"]
