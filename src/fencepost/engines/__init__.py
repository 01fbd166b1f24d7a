"""What delivers batches, on Spark or in plain Python, and what both report and wait for."""
