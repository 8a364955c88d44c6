"""Refusals, hallucinations, degenerate outputs, full budgets, and the tasks' metrics."""
