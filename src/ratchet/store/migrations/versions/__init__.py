"""One step per file; each is complete in itself and never changed once released."""
