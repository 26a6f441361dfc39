"""The session cluster: a dispatcher that owns a Spark session and runs programs in it, each in a process of its own."""
