"""Right steps by step number and by generated tokens."""
