"""From the tree of a query to operators: binding, rewriting, changelog modes, the physical plan."""
