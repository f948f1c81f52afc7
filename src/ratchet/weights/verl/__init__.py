"""Rollouts of an agent for verl's trainer, on one or many GPUs."""
