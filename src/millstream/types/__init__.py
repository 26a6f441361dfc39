"""Types of values: what they are called, how they are checked, shown and mapped."""
