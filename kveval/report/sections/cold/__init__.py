"""What the prefix cache changes."""
