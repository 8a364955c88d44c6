"""Score by the length of the output."""
