"""Pinned texts that are fetched once: essays, Wikipedia, source code, function schemas."""
