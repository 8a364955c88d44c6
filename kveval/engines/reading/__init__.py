"""Reads how probable a server finds given texts."""
