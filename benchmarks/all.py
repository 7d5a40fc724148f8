"""`make bench`: every measure, one after the other, each on a platform of its own."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "invocation",
    "tensors",
    "remote",
    "cpu_handler",
    "miss",
    "policies",
    "core_speed",
    "common_work",
    "probes",
    "footprint",
    "interposition",
)


def main() -> int:
    """Run them all; the exit status says whether each could be measured."""
    failed = [name for name in BENCHMARKS if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode]
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
