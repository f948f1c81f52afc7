"""Reads a repository: its agents, prompts, tools, effects, tests, tracing and data."""
