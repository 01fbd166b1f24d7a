"""`python -m fencepost` is `fencepost`."""

from fencepost.cli import main

main()
