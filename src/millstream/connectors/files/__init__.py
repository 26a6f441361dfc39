"""Files: a source of records in files, a sink that publishes whole files."""
