"""The inline executor: this process, no JVM."""
