"""The verdict for every candidate."""
