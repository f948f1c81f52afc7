"""Runs the owner's own command once, and watches it."""
