"""The DataStream API under PyFlink's names."""
