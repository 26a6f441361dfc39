"""Tables of the built-in functions, one family a file."""
