"""Sources of tables: those in memory, and the partitions of a Spark DataFrame."""
