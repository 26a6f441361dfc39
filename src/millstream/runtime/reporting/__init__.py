"""Metrics on their way out of the process that drives jobs."""
