"""Binding: names, types and operations of a query's tree are resolved; the result is a logical plan."""
