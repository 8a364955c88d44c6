"""What every engine was doing, and how to repeat the run."""
