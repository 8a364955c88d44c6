"""Records extracted from a document as JSON."""
