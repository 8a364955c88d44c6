"""Right answers as texts that an engine is made to write, and the score expected from their probabilities."""
