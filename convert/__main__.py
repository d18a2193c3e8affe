"""`python -m convert` is the command line."""

from convert.cli import main

main()
