"""Where checks keep what requirements.txt asked for, so that the next check does not install it again.

`check/` of the state folder: environments stay, bundles go with the last check that uses it. A handler
that asks for nothing needs none of this, and a state folder that cannot be written is no reason to fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = "check"
_REQUIREMENTS = ("requirements.txt", "function/requirements.txt")


@contextmanager
def kept(directory: Path, state_dir: Path) -> Iterator[Path | None]:
    """An images folder for the handler in `directory`; None: it may do with one that goes away."""
    folder = state_dir / FOLDER
    if not any((directory / name).is_file() for name in _REQUIREMENTS) or not _make(state_dir, folder):
        yield None
        return
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield folder
        finally:
            with contextlib.suppress(BlockingIOError):  # another check is at work, and cleans up after itself
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder / "bundles")
                (folder / "names.json").unlink(missing_ok=True)
    finally:
        os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder with bundles, which are frozen: only root could otherwise."""
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o755)
    shutil.rmtree(folder, ignore_errors=True)


def _make(state_dir: Path, folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Functions run under users of their own and pass through, as in the state folder's own images.
        state_dir.chmod(state_dir.stat().st_mode | 0o711)
        folder.chmod(0o755)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
