"""Streams that keep state: a checkpoint that lasts, and batches that are told apart by their number."""
