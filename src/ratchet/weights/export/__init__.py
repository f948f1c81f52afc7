"""Writes training data in the formats of hosted services and training libraries."""

from ratchet.weights.export.files import FORMATS, ExportFormat, Method, write_examples, write_pairs

__all__ = ["FORMATS", "ExportFormat", "Method", "write_examples", "write_pairs"]
