"""`python -m convert` is the command line."""

import sys


def start() -> None:
    """Run the command line; nothing is imported from the current folder, and nothing before signals are handled."""
    if not sys.flags.safe_path:
        del sys.path[0]
    try:
        from convert.cli.signals import leave_at_once

        leave_at_once()
    except KeyboardInterrupt:  # the same message as after signals are handled
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    from convert.errors import ConvertError
    from convert.processes.interpreter import check_own_folder

    try:
        check_own_folder()
    except ConvertError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    from convert.cli import main

    main()


if __name__ == "__main__":
    start()
