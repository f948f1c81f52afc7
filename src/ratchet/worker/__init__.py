"""Runs attempts in the agent's own interpreter. Part of the SDK: imports no room of the tool."""
