"""The sections of the HTML report, one folder each."""
