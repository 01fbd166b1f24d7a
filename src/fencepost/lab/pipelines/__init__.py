"""Pipelines under a fault: as a process of their own, with a gate at which they stand still, die or fail."""
