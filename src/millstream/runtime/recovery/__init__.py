"""What outlives an attempt or a driver: failures, restarts, results, whose a job is."""
