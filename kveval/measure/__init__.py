"""Asks every variant the same samples and writes down what came back."""
