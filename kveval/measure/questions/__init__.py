"""Chooses how many questions share a haystack, where the configuration leaves it to kveval."""
