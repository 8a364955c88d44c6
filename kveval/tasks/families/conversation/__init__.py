"""Facts told and changed in a long conversation."""
