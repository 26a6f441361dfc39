"""The contracts of everything that can be plugged in."""
