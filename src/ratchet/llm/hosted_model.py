"""The hosted model that hints, help and documentation name where any would do."""

from __future__ import annotations

HOSTED_MODEL = "gpt-6-luna"
"""A cheap model that its provider offers for good: the newest of its family in `genai-prices`.

A test fails when it is deprecated or superseded there, and when a text names another one.
"""
