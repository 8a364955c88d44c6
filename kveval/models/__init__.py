"""Checkpoints and tokenizers as files, and the demo models."""
