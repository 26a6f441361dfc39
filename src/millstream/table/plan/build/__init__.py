"""Physical plans: patterns in a logical plan become operators."""
