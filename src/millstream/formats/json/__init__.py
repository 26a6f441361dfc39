"""JSON: files of one object a line, and messages of one object."""
