"""What else is done with a server that runs, once its samples are answered."""
