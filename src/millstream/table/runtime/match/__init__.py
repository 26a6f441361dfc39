"""MATCH_RECOGNIZE: rows of a key in order, through the automaton of `operators.patterns`."""
