"""The gate in two halves side by side, each with brokers and a database of its own: alone, either one mostly waits."""

from __future__ import annotations

import subprocess
import sys
from tempfile import TemporaryFile

# Spark first: py4j's callbacks wait by select(), which takes no file above 1,023, and each suite leaves clients behind.
HALF = ("spark", "audit", "stack", "sweep", "producing", "model")
FOLDERS = [f"tests/{name}" for name in HALF]
PYTEST = [sys.executable, "-m", "pytest", "-m", "not proof", "--durations=10"]


def main() -> int:
    """The other half is shown while it runs, this one when both are done."""
    with TemporaryFile() as output:
        half = subprocess.Popen([*PYTEST, *FOLDERS], stdout=output, stderr=subprocess.STDOUT)
        try:
            others = subprocess.run([*PYTEST, "tests", *(f"--ignore={folder}" for folder in FOLDERS)], check=False)
        finally:
            code = half.wait()
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.buffer.flush()
    return code or others.returncode


if __name__ == "__main__":
    sys.exit(main())
