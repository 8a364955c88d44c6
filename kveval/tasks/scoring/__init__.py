"""Checks that scorers share: text, numbers, abstention, JSON, calls and sandboxed code."""

SCORING_VERSION = 2
"""Raise it when a scorer gives an answer another score or outcome.

Answers that were scored by different versions are not compared, nor mixed by a resume. `metadata.version` of a task is
for its questions: it is part of every sample's id, and this number is not.
"""
