"""The demo: one slice that cannot hold two models, three functions, real input, and what each call cost.

It does what a newcomer would do by hand, with the same commands: `slicewise up`, `build`, `deploy`, an
HTTP POST, `slicewise state`, `down`. Everything it starts it stops, also when something fails.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
SLICEWISE = Path(sys.executable).parent / "slicewise"
# Room for either model's worker (about 31 MiB with speech, 102 MiB with embed), not for both.
SLICES = "1x1g:118MiB"
READY_TIMEOUT_S = 180.0
CALL_TIMEOUT_S = 60.0

console = Console(highlight=False, soft_wrap=True)


@dataclass
class Call:
    """One invocation as its caller saw it."""

    function: str
    what: str
    answer: str
    headers: Message
    seconds: float


def free_port() -> int:
    """A TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Demo:
    """A platform of its own, in a folder that goes away with it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.environment = {
            **os.environ,
            "SLICEWISE_STATE_DIR": str(folder),
            "OPENFAAS_URL": self.url,
            "OPENFAAS_CONFIG": str(folder / "login"),
        }
        self.password_file = folder / "secrets" / "basic-auth-password"

    def slicewise(self, *arguments: str) -> None:
        """Run one `slicewise` command as a user would and show it."""
        console.print(f"[bold]$ slicewise {' '.join(arguments)}[/bold]")
        subprocess.run([SLICEWISE, *arguments], env=self.environment, cwd=HERE, check=True)

    def system(self, path: str) -> object:
        """GET a management endpoint with the credentials that `up` made."""
        pair = base64.b64encode(f"admin:{self.password_file.read_text().strip()}".encode()).decode()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Basic {pair}"})
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
            return json.load(answer)

    def wait_ready(self, *names: str) -> None:
        """Until every function has a ready replica; raises TimeoutError with the reason that describe gives."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        waiting = set(names)
        while waiting:
            for name in sorted(waiting):
                status = self.system(f"/system/function/{name}")
                if isinstance(status, dict) and status.get("availableReplicas", 0) > 0:
                    waiting.discard(name)
            if waiting and time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {READY_TIMEOUT_S:.0f} s: {', '.join(sorted(waiting))}")
            time.sleep(0.2)

    def call(self, function: str, what: str, body: bytes) -> Call:
        """POST to a function; an error status is raised with its text."""
        started = time.perf_counter()
        request = urllib.request.Request(f"{self.url}/function/{function}", data=body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
                text, headers = answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{function} answered {error.code}: {error.read().decode()}") from error
        return Call(function, what, text, headers, time.perf_counter() - started)

    def cached(self) -> str:
        """What the slices hold, least recently used first."""
        state = self.system("/system/scheduler/state")
        assert isinstance(state, dict)
        return "; ".join(
            f"{piece['id']} holds "
            + (", ".join(str(worker["worker"]).partition(".")[0] for worker in piece["workers"]) or "nothing")
            for piece in state["slices"]
        )


def shorten(function: str, answer: str) -> str:
    """An answer in a line; vectors are too long to show whole."""
    if function != "embed":
        return answer.strip()
    vectors = json.loads(answer)["vectors"]
    cosine = [sum(a * b for a, b in zip(vectors[0], other, strict=True)) for other in vectors[1:]]
    return f"{len(vectors)} vectors of {len(vectors[0])}; likeness to the first: " + ", ".join(
        f"{value:.2f}" for value in cosine
    )


def show(calls: list[Call]) -> None:
    """One line a call: where it ran, hit or miss, and where its seconds went."""
    table = Table(title="What each call cost (seconds)", title_justify="left")
    for column in ("function", "slice", "cache", "queued", "loaded", "inferred", "whole call"):
        table.add_column(column, justify="left" if column in ("function", "slice", "cache") else "right")
    for call in calls:
        names = ("Slice", "Cache", "Queue-Seconds", "Load-Seconds", "Infer-Seconds")
        piece, cache, *seconds = (call.headers.get(f"X-Slicewise-{name}", "-") for name in names)
        shown = [f"{float(value):.3f}" if value != "-" else "-" for value in seconds]
        table.add_row(call.function, piece, cache, *shown, f"{call.seconds:.3f}")
    console.print(table)


def story(demo: Demo) -> None:
    """The whole demo on a platform that is down when it begins."""
    demo.slicewise("up", "--detach", "--port", demo.url.rpartition(":")[2], "--metrics-port", "0", "--slices", SLICES)
    for name in ("speech", "embed", "words"):
        demo.slicewise("build", name, "-t", f"{name}:latest")
    demo.slicewise("deploy", "-f", "stack.yml")
    demo.wait_ready("speech", "embed", "words")

    speech = (HERE / "speech" / "speech.wav").read_bytes()
    sentences = b"A cat sits on the mat.\nA kitten rests on a rug.\nThe train leaves at nine."
    calls = []
    for function, what, body in (
        ("speech", "when does somebody speak in speech.wav?", speech),
        ("speech", "the same again: the model is warm now", speech),
        ("embed", "three sentences; its model needs the room of the other", sentences),
        ("embed", "the same again, warm", sentences),
        ("speech", "back to the first, which was evicted", speech),
        ("words", "a CPU function, untouched by all this", sentences),
    ):
        call = demo.call(function, what, body)
        calls.append(call)
        console.print(f"\n[bold]{function}[/bold]: {what}\n  {shorten(function, call.answer)}")
        console.print(f"  [dim]{demo.cached()}[/dim]")
    console.print()
    show(calls)
    caches = [call.headers.get("X-Slicewise-Cache") for call in calls]
    if caches != ["miss", "hit", "miss", "hit", "miss", None]:
        raise RuntimeError(f"expected miss, hit, miss (evicts), hit, miss (evicts) and none; got {caches}")
    console.print("The slice holds one of the two models at a time: each miss after the first evicted the other.")


def main() -> int:
    """Run the story, and take everything down whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="slicewise-demo-"))
    folder.chmod(0o711)
    demo = Demo(folder)
    try:
        story(demo)
    except (RuntimeError, TimeoutError, OSError, subprocess.CalledProcessError) as error:
        console.print(f"[red]The demo failed: {error}[/red]")
        for log in sorted((folder / "logs").glob("*.log")):
            console.print(f"[dim]{log.name}:\n{log.read_text()[-1500:]}[/dim]", markup=False)
        return 1
    finally:
        subprocess.run([SLICEWISE, "down"], env=demo.environment, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
