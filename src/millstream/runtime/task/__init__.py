"""One subtask: decode blocks, drive the chain, encode blocks, report."""
