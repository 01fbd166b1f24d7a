"""The entry point of the command: `fencepost`, and `python -m fencepost`."""

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line. An interrupt while its modules are being loaded ends the process, without a word."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else it is ignored, as in a background job
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # nothing is open yet
    from fencepost.cli import main as run

    try:
        if usual is signal.default_int_handler:
            signal.signal(signal.SIGINT, usual)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
