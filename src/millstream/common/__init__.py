"""The vocabulary of millstream; imports nothing else of it."""
