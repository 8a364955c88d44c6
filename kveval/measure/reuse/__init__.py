"""What is not asked twice: the answers of a run that grows, and those of an earlier run whose setting did not change."""
