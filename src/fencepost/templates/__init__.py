"""What `fencepost init` writes."""
