"""Aggregate functions by slot: what each keeps, adds, takes back, and gives."""
