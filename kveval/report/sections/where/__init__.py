"""Scores by context length, depth and output position."""
