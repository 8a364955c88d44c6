"""Runs inside vLLM: rounds K and V to an emulated format before they are stored."""
