"""The version of millstream."""

__version__ = "0.1.0"
