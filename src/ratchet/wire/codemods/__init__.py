"""Declares prompts in source files, byte for byte; only where that is asked for."""

from ratchet.wire.codemods.declare import Declared, PromptLiteral, declare

__all__ = ["Declared", "PromptLiteral", "declare"]
