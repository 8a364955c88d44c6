"""Shows a run to the people who review it."""
