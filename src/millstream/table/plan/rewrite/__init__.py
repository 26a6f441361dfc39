"""Rewrites of logical plans, one idea a file; `pipeline.py` lists them."""
