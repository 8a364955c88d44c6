"""Builds the HTML report."""
