"""Built-in functions and operators: signatures, result types, and what computes them over columns."""
