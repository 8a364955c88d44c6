"""Prompts that are not built here: the user's own, and lm-eval's tasks."""
