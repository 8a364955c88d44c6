"""Estimates errors, intervals and p-values from scores whose samples share haystacks."""
