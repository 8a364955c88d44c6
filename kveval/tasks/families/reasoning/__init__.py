"""Chains of dependent steps, each of which can be checked."""
