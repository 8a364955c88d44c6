"""Explains a verdict: changed samples, drift, prefix cache and speculation."""
