"""Speed under load."""
