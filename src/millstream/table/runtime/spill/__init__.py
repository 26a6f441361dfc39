"""State of SQL's operators that is larger than memory: sorted runs of rows on the slot's disk."""
