"""The files that runtime and worker share: frames, payloads, packages, answers, and what "cuda" means without one.

They live in functions/runtime/_slicewise, the folder that enters a user's process, because they may
import nothing but the standard library there. The worker runs users' code too and reads what the
runtime wrote, so it takes the same files instead of a copy: one definition of what crosses.
"""

from __future__ import annotations

import sys
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[2] / "functions" / "runtime"

sys.path.insert(0, str(RUNTIME))
try:
    from _slicewise import devices, errors, frames, outlets, package, payload, streams, tree
finally:
    sys.path.remove(str(RUNTIME))

__all__ = ["devices", "errors", "frames", "outlets", "package", "payload", "streams", "tree"]
