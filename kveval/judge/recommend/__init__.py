"""Recommends a cache setting to serve with."""
