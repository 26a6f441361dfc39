"""MongoDB: collections as sinks and as bounded sources."""
