"""How rollouts run an agent that nobody prepared, and what must not act in them."""

from ratchet.wire.entry.adapter import CannotCall
from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.wiring import task_inputs, way_to_run, wire_entry

__all__ = ["CannotCall", "Modules", "task_inputs", "way_to_run", "wire_entry"]
