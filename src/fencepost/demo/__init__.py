"""The demo: the whole story on a stack of its own, each step said in one line as it happens."""
