"""How a running job is seen and steered from outside."""
