"""The command line: thin commands that call the packages below and translate errors into one line."""

from fencepost.cli.app import main

__all__ = ["main"]
