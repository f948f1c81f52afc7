"""Wires an agent that nobody prepared: by watching one run of it, and exactly undone."""
