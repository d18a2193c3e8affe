"""`python -m convert` is the command line."""

import sys

from convert.errors import ConvertError
from convert.interpreter import leave_own_folder

if __name__ == "__main__":
    try:
        leave_own_folder()
    except ConvertError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)

from convert.cli import main

main()
