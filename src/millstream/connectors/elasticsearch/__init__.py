"""Elasticsearch and OpenSearch: documents of indices as a sink, as a bounded source, and looked up by id."""
