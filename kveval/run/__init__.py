"""The run directory: the only thing that measuring and judging share."""
