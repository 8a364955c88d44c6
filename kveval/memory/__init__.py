"""What a KV cache takes and what fits, from a model's config.json alone: no engine, no GPU, no torch."""
