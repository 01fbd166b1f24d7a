"""Where events come from: files, pipes, numbers."""
