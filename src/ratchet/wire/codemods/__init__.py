"""Declares prompts in source files, byte for byte, and only on request."""

from ratchet.wire.codemods.declare import Declared, PromptLiteral, declare

__all__ = ["Declared", "PromptLiteral", "declare"]
