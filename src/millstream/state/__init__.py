"""Keyed state, timers and key groups."""
