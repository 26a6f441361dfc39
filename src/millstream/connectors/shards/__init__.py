"""Streams that are made of shards, such as Kinesis' and those of DynamoDB: which there are, and how they are read."""
