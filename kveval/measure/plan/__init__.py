"""From a configuration to samples and launches."""
