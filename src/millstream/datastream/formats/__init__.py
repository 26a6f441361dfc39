"""File formats (PyFlink's `pyflink.datastream.formats`)."""
