"""What driver, executors and slots tell each other."""
