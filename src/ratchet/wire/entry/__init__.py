"""How rollouts run an agent that nobody prepared, and what must not act in them."""

from ratchet.wire.entry.wiring import can_call, wire_entry

__all__ = ["can_call", "wire_entry"]
