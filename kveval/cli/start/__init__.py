"""The commands with which a person begins."""
