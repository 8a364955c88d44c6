"""Score by depth of the answer."""
