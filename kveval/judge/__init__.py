"""Compares variants from run directories alone."""
