"""Flink's JSON documents, made of views: one module for each group of paths, functions without side effects."""
