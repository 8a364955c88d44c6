"""``python -m kveval``."""

from kveval.cli import main

main()
