"""One run of a pipeline, from taking over to its summary."""
