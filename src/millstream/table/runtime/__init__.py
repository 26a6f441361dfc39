"""SQL operators over column batches, with the kind of change of each row."""
