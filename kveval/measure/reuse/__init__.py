"""What is not asked twice: the answers of a run that grows, and those of an earlier run where nothing changed."""
