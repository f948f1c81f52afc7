"""The autopilot: the loop without a person, as a persisted state machine."""
