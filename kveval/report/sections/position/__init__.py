"""Score by position in a long output."""
