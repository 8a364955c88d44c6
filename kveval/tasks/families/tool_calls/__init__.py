"""Requests that must be answered with function calls."""
