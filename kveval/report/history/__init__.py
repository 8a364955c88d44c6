"""One page about several runs."""
