"""The hosted model that hints, help and documentation name as an example."""

from __future__ import annotations

HOSTED_MODEL = "gpt-6-luna"
"""A cheap model that its provider keeps offering: the newest of its family in `genai-prices`.

A test fails when it is deprecated or superseded there, and when a text names another one.
"""
