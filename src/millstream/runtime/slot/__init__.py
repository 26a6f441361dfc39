"""The resident process that holds one subtask of every vertex."""
