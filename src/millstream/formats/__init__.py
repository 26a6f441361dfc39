"""Bytes and files to batches, and back."""
