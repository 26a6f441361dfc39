"""Event time of a whole job: what it is, who holds it back, who has to wait."""
