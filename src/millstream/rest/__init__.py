"""Flink's REST API over the jobs' control plane: routes, documents, server; no logic of jobs."""
