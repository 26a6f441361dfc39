"""Windows: assigners, triggers, and the operators that keep panes."""
