"""What watches a recorded program from inside it; needs nothing but its language."""
