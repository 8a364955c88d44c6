"""What the wording of an answer makes of what it names: denied, one of several, refused, degenerate."""
