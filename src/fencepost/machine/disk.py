"""What the file system says, in one line with a remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.errors import Unreachable, Usage

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR}
_OTHER_HOME = "choose another folder with --home DIR"


@contextmanager
def explained(folder: Path, elsewhere: str = _OTHER_HOME) -> Iterator[None]:
    """Turn what the file system refuses in this folder into an error that says what to do, or how to go elsewhere."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        reason = f"{error.filename or folder}: {os.strerror(error.errno)}"
        if error.errno in _FULL:
            raise Unreachable(reason, f"make room on that disk, or {elsewhere}") from error
        if error.errno in _CLOSED:
            raise Usage(reason, elsewhere) from error
        raise Unreachable(reason, elsewhere) from error


def write(path: Path, text: str, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """All or nothing, and on the disk when it returns. The owner may be another: then it is his before it has a name
    that he knows, and no name in his folder is ever followed."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(draft, flags, mode), "w", encoding="utf-8") as file:
        if owner:
            os.fchown(file.fileno(), *owner)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
