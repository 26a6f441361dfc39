"""What a session of SQL knows and does: statements, settings, the shell."""
