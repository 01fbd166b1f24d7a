"""Rows between a source and a sink: their shape, the functions that make them, JSON, and finding the bad ones."""
