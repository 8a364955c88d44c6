"""Launches vLLM and establishes what it is doing."""
