"""What watches a program from inside it, or leads its model calls: needs its language alone."""
