"""Checks that scorers share: text, numbers, abstention, JSON, calls and sandboxed code."""
