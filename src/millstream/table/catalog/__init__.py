"""Catalogs: databases, tables, views and functions by name, and the connectors of tables."""
