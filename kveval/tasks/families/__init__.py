"""The task families, one folder each: its builder and its scorer."""
