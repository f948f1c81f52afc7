"""The agents of benchmarks/code_search.py: each has one function that evolves."""
