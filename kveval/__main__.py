"""Starts `kveval`, and ends with the right code even where kveval or a dependency cannot be imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from kveval.cli.app import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BaseException as error:
        from kveval.cli.crash import report_crash

        message, code = report_crash(error, sys.argv[1:])
        sys.stderr.write(f"error: {message}\n")
        raise SystemExit(code) from None
    run()


if __name__ == "__main__":
    main()
