"""`python -m millstream`: the command line, where the script `millstream` is not on the path."""

from millstream.cli.main import main

main()
