"""PostgreSQL as a source: tables and queries read in parts, side by side; needs psycopg (the extra `postgres`)."""
