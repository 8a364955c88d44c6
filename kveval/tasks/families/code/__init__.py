"""Questions about real source code."""
