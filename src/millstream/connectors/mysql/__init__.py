"""MySQL and MariaDB as sources: tables and queries in parts, and changes of tables; needs PyMySQL (extra `mysql`)."""
