"""Operators on whole columns: aggregates by expression, and functions that take batches."""
