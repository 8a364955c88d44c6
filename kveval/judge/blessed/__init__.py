"""Compares a run with an approved earlier run."""
