"""Interim looks as the judge reads them: what a row rests on, and what a look stops."""
