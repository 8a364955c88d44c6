"""Speculative decoding: acceptance and changed answers."""
