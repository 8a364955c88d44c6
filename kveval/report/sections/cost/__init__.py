"""Time, tokens and memory of every variant."""
