"""Results as the contract asks: JSON for machines, and a page for people beside it."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """What this ran on, in a line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {gib:.0f} GiB, {system}"


def percentile(values: list[float], share: float) -> float:
    """Nearest-rank percentile, `share` in (0, 1]."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1e9) * len(ordered) // 10**9) - 1)]


def write(name: str, title: str, results: list[dict[str, Any]], notes: str) -> None:
    """Write results/NAME.json and results/NAME.md, and print the page."""
    module = Path(sys.argv[0]).resolve().relative_to(Path(__file__).parents[1]).with_suffix("")
    command = "python -m " + " ".join([".".join(module.parts), *map(shlex.quote, sys.argv[1:])])
    document = {
        "command": command,
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    columns = list(dict.fromkeys(key for row in results for key in row))
    lines = [
        f"# {title}",
        "",
        f"`{command}`, {document['date']}, {document['machine']}.",
        "",
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" for _ in columns) + " |",
        *("| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in results),
        "",
        notes.strip(),
        "",
    ]
    (RESULTS / f"{name}.md").write_text("\n".join(lines))
    print("\n".join(lines))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
