"""Ratchet: observe, evaluate, learn, prove, ship, for an LLM agent you already have."""
