"""What will run, as plain data."""
