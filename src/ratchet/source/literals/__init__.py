"""String literals of any language: found by the text of a template, and rewritten."""
