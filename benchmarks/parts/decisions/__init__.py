"""The gates that decide on a candidate, side by side, and the scores that they get."""
