"""What each look at a candidate found while it was asked."""
