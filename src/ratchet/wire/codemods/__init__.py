"""Declares the prompts of a repository: around their literals in code, or as files of prompts."""

from ratchet.wire.codemods.bind import bind_prompts

__all__ = ["bind_prompts"]
