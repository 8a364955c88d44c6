"""Summaries that must cover planted decisions."""
