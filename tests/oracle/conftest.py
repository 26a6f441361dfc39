"""Programs are run by `test_oracle.py`; they are no modules to look for doctests in."""

collect_ignore_glob = ["programs/*", "record.py"]
