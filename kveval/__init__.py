"""Long-context accuracy evaluation for KV-cache quantization."""

__version__ = "0.1.0"
