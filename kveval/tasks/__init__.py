"""What to ask: builders and scorers of long-context tasks."""
