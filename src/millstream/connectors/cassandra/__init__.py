"""Apache Cassandra: tables as sinks, by statement or by name."""
