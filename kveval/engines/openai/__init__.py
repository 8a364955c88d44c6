"""Servers that already run: attach to them and find out what they understand."""
