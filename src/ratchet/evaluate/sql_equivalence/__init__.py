"""Whether two SQL queries give the same results."""
