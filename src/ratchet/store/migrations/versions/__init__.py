"""One migration per file; self-contained and never changed once released."""
