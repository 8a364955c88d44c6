"""How fast a server is under load, variant by variant."""
