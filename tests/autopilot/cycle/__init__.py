"""Tests of the autopilot's cycles."""
