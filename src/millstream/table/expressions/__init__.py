"""Typed expressions over the columns of a row (`rex`), and what computes them."""
