"""What carries batches, on Spark or in plain Python, and what both tell and wait for."""
