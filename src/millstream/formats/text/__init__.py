"""Text: files of lines."""
