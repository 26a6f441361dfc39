"""Makes a job graph happen."""
