"""Redis: streams as sources; streams, hashes, strings, sets and lists as sinks."""
