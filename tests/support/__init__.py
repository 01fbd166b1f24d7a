"""What suites share: hostile values, names, files and documents."""
