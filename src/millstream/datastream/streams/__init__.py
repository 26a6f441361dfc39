"""Kinds of streams, a module each; `millstream.datastream.data_stream` has all of them."""
