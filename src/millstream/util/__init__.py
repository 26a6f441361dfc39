"""Under PyFlink's name (`pyflink.util`): exceptions."""
