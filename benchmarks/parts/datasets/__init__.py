"""Parts of benchmarks/datasets.py."""
