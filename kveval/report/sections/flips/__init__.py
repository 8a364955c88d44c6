"""Samples that only one side got right."""
