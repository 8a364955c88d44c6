"""What a plan can show, before anything is launched."""
