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
    """Write results/NAME.json and results/NAME.md, and print the page; rows that others joined to it stay."""
    results = results + [row for row in _rows(name) if "joined_by" in row]
    document = {
        "command": _command(),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        f"# {title}",
        "",
        f"`{document['command']}`, {document['date']}, {document['machine']}.",
        "",
        *_table(results),
        "",
        notes.strip(),
        "",
    ]
    (RESULTS / f"{name}.md").write_text("\n".join(lines))
    print("\n".join(lines))


def join(name: str, scenario: str, results: list[dict[str, Any]]) -> None:
    """Put rows into results/NAME, which another benchmark writes, in place of those whose scenario begins likewise."""
    rows = [row for row in _rows(name) if not row["scenario"].startswith(scenario)]
    rows += [{**row, "joined_by": _command()} for row in results]
    file, page = RESULTS / f"{name}.json", RESULTS / f"{name}.md"
    document = json.loads(file.read_text()) if file.is_file() else {"command": _command(), "machine": machine()}
    file.write_text(json.dumps(document | {"results": rows}, indent=1) + "\n")
    words = page.read_text().splitlines() if page.is_file() else [f"# {name}", "", "|"]
    first = next(n for n, line in enumerate(words) if line.startswith("|"))
    rest = [line for line in words[first:] if not line.startswith("|")]
    page.write_text("\n".join([*words[:first], *_table(rows), *rest]) + "\n")


def _rows(name: str) -> list[dict[str, Any]]:
    file = RESULTS / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text())["results"] if file.is_file() else []
    return rows


def _command() -> str:
    module = Path(sys.argv[0]).resolve().relative_to(Path(__file__).parents[1]).with_suffix("")
    return "python -m " + " ".join([".".join(module.parts), *map(shlex.quote, sys.argv[1:])])


def _table(results: list[dict[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(key for row in results for key in row))
    return [
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" for _ in columns) + " |",
        *("| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in results),
    ]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
