"""What this machine can do: checks that start no engine, each with what to do."""
