"""Simulation of many live stages at once."""
