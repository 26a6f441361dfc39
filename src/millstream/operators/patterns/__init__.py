"""Patterns over ordered events: what they are, the automaton that finds them, and the operator that runs it."""
