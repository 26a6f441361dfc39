"""What computes the built-in functions over columns, one family a file."""
