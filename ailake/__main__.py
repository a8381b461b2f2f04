"""``python -m ailake`` is the command line."""

from ailake.cli import main

main()
