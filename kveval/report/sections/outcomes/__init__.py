"""Counts of every outcome."""
