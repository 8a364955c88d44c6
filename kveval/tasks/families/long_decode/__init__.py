"""Long outputs that are checked entry by entry."""
