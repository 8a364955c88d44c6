"""What differs when nothing was changed."""
