"""Compares variants sample by sample, and judges what was lost."""
