"""HTTP: resources as sources, by polling; services as sinks and look-ups."""
