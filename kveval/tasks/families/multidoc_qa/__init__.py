"""Questions answered by documents among many."""
