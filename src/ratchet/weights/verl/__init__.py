"""Rollouts of an agent for the trainer of verl, on one or many GPUs."""
