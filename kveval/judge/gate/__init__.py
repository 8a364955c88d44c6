"""Decides by policy whether a run passes."""
