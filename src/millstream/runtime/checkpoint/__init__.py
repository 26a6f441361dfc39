"""Checkpoints and savepoints: where they are kept, what they look like, when they are made."""
