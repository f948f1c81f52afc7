"""Wires an agent that knows nothing of Ratchet, by watching one run; can be undone exactly."""
