"""How far the next-token distribution moved."""
