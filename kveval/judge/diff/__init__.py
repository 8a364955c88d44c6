"""Compares any two runs, variants or blessed files."""
