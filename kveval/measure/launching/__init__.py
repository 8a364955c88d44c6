"""One variant on its server: what is left to ask, and one launch of it."""
