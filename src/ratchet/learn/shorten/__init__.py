"""Shorten: leaves out and merges parts of prompts as long as no score is lost."""

from ratchet.learn.shorten.shorten import Shorten

__all__ = ["Shorten"]
