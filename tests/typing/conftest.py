"""The typed program is for the type checker, not to be run."""

collect_ignore = ["typed_program.py"]
