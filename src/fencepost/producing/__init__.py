"""Producers: events into a topic, and what became of each."""
