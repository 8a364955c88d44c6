"""Forms in which models write function calls, beyond JSON and Python."""
