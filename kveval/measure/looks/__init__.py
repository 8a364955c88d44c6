"""Looks at a candidate while it is asked: when, at which level, and what is asked no more."""
