"""Sizes a KV cache and what fits, from a model's config.json alone: no engine, no GPU, no torch."""
