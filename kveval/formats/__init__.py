"""Cache dtypes: one registry of what each stores, and the codecs that emulate them."""
