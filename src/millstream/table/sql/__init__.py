"""SQL text: the tree of a statement (`ast`), and what makes it of text (`parser`)."""
