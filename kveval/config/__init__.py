"""What a user may write in a sweep configuration, and how it is checked."""
