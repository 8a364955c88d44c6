"""How far each variant moves from the baseline along the same text."""
