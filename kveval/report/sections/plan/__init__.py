"""What the plan could show."""
