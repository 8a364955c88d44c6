"""Cache formats: what each cache dtype stores, and the rounding that emulates it."""
