"""The job side: epoch loop, life cycle."""
