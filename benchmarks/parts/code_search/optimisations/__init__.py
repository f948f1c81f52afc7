"""The problems of benchmarks/code_search.py: tasks, how a function is run on one, and its score."""
