"""Connectors of tables, by the option `connector`."""
