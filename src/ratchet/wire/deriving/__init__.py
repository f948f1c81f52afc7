"""From a recorded run to a wiring: pure functions of a `Recording`."""
