"""Measures how fast each variant's server is under load."""
