"""Finds out whether the answers of a run can be judged at all: a server is not believed for a whole night."""
