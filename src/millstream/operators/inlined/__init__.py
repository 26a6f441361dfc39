"""Loops over records that have a user's function written into them, instead of a call of it for each record."""
