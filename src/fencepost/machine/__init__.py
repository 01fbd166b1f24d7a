"""What Fencepost needs of the machine it runs on: Java, the jars, a cache, processes, room on the disk."""
