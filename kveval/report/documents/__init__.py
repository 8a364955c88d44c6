"""What the commands print with --json, and verdict.json: strict JSON documents."""
