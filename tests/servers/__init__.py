"""Real servers for tests: each a process of its own, installed by the names of its packages."""
