"""Tables of Amazon DynamoDB and their streams."""
