"""CSV: files, and messages of one line."""
