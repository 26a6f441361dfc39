"""Streams of Amazon Kinesis, and Firehose."""
