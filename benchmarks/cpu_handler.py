"""A CPU handler that answers ok: on Slicewise, and under plain gunicorn with Flask, side by side.

Requests a second at concurrency 8, the same client, in turns on one machine; medians of the turns.
gunicorn is installed into a virtual environment of this benchmark's own.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.load import closed_loop, run
from benchmarks.report import percentile, write
from benchmarks.stage import Stage, free_port

CLIENTS = 8
APP = """
from flask import Flask
app = Flask(__name__)
@app.route("/function/echo", methods=["POST"])
def echo():
    return "ok"
"""


async def wait_http(url: str) -> None:
    """Until something answers there."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(url + "/function/echo"):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)


async def measure(turns: int, requests: int) -> list[dict[str, Any]]:
    """Alternate between the two."""
    folder = Path(tempfile.mkdtemp())
    (folder / "app.py").write_text(APP)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([folder / "venv/bin/pip", "-q", "install", "flask", "gunicorn"], check=True)
    port = free_port()
    command: list[str | Path] = [
        folder / "venv/bin/gunicorn",
        "-w",
        "1",
        "-k",
        "gthread",
        "--threads",
        "8",
        "-b",
        f"127.0.0.1:{port}",
        "app:app",
    ]
    plain = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    figures: dict[str, list[tuple[float, float, float]]] = {"gunicorn + Flask": [], "Slicewise": []}
    try:
        with Stage("--slices", "1x1g:512MiB") as stage:
            stage.build("echo")
            async with aiohttp.ClientSession() as session:
                await stage.deploy(session, "echo", "echo", gpu=False)
                await stage.wait_ready(session, ["echo"])
            plain_url = f"http://127.0.0.1:{port}"
            await wait_http(plain_url)
            for turn in range(turns + 1):
                for name, url in (("gunicorn + Flask", plain_url), ("Slicewise", stage.url)):
                    samples, seconds = await closed_loop(url, ["echo"] * requests, lambda _: b"x", CLIENTS)
                    if any(sample.status != 200 for sample in samples):
                        raise RuntimeError(
                            f"{name}: {[sample.status for sample in samples if sample.status != 200][:3]}"
                        )
                    latencies = [sample.seconds for sample in samples]
                    if turn:  # the first turn warms both up
                        figures[name].append(
                            (len(samples) / seconds, percentile(latencies, 0.5), percentile(latencies, 0.99))
                        )
                    time.sleep(0.2)
    finally:
        plain.terminate()
        plain.wait(10)
    median = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in figures.items()}
    return [
        {
            "case": f"CPU handler, {name}",
            "concurrency": CLIENTS,
            "p50_s": p50,
            "p99_s": p99,
            "rps": rps,
            "baseline": "gunicorn + Flask",
            "ratio": rps / median["gunicorn + Flask"][0],
        }
        for name, (rps, p50, p99) in median.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    given = parser.parse_args()
    write(
        "cpu-handler",
        "A CPU handler through gateway, broker and template server",
        run(measure(given.turns, given.requests)),
        "gunicorn runs one gthread worker of eight threads. The client shares the two cores. Aim: a ratio of "
        "0.5 or better.",
    )
