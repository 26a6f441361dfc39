"""`python -m millstream.cli`."""

from millstream.cli.main import main

main()
