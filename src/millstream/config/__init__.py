"""Options: their names, values, defaults, and where they come from."""
