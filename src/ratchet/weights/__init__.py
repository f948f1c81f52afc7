"""Weights: trains the model behind an agent on the agent's own calls."""
