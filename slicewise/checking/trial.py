"""One handler on a real platform: built, deployed with the GPU flag, called, and what everybody says of it afterwards.

Facts only; what is wrong and what to do about it is `findings`' affair.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from functions.service import bundles
from proto.types.errors import SlicewiseError
from slicewise.checking import local, memory, packages
from slicewise.checking.local import LocalRun
from slicewise.checking.memory import Memory
from slicewise.checking.platform import PrivatePlatform
from slicewise.checking.request import Answer, Request

WHY = "com.slicewise.why"
# A replica is given this long to import its handler; the host's own limit ends it earlier.
START_TIMEOUT_S = 150.0
# The GPU manager measures a worker a moment after its turn, at most once a second.
SETTLE_S = 1.5
GRACE_S = 10.0  # what the whole way may take beside the handler's own limit
_PAUSE_S = 0.05
_LOG_LINES = 400

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """What happened. `why` says why the function does not become ready, `remark` what `describe` says though it is;
    `log` is what it printed.

    `bundle` is there as long as the platform is.
    """

    request: Request
    image: bundles.Image
    bundle: Path
    local: LocalRun
    answers: list[Answer] = field(default_factory=list)
    why: str = ""
    remark: str = ""
    log: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    """The broker's: functions/service/broker/reporting.py."""
    tensors: Mapping[str, int] = field(default_factory=dict)
    """Digest -> how many tensors its package has."""
    memory: Memory = field(default_factory=Memory)


def run(platform: PrivatePlatform, request: Request, say: Progress, name: str = "check") -> Trial:
    """Everything once; the function is removed afterwards. Raises SlicewiseError `bad_image` for a folder that is none.

    The platform may still be coming up: the build goes on meanwhile.
    """
    images = platform.images
    digest = bundles.build(request.directory, name, images, say, template=request.template)
    image = bundles.load(digest, images)
    bundle = bundles.bundle_path(digest, images).resolve()
    say("waiting for the platform")
    platform.wait_ready()
    gateway = platform.gateway
    limit = f"{request.timeout_s:g}s"
    limits = {"exec_timeout": limit, "read_timeout": limit, "write_timeout": limit}
    deployment = {
        "service": name,
        "image": f"{name}@sha256:{digest}",
        "labels": {"com.slicewise.gpu": "true"},
        "envVars": {**limits, **request.environment},
    }
    gateway.system("POST", "/system/functions", body=deployment)
    try:
        say("starting the handler")
        why = _until_ready(platform, name)
        answers: list[Answer] = []
        loaded = 0
        if not why:
            for number in range(request.calls):
                say(f"call {number + 1} of {request.calls}")
                answers.append(_call(platform, name, request))
                if number == 0:
                    loaded = memory.loaded(platform, name)
        report = _report(platform, name) if not why else {}
        held = memory.look(platform, name, loaded, SETTLE_S) if report.get("models") and report.get("calls") else None
        log = _log(platform, name)
        remark = "" if why else _said(gateway.system("GET", f"/system/function/{name}").json())
        tensors = packages.tensors(platform.layout, name)
    finally:
        gateway.system("DELETE", "/system/functions", body={"functionName": name}, accept=(404,))
    say("running it locally")
    gpcs = max((item["gpcs"] for item in platform.node_status()["slices"]), default=1)
    beside = local.run(request, image, images, platform.layout.root / f"local-{name}", gpcs)
    return Trial(request, image, bundle, beside, answers, why, remark, log, report, tensors, held or Memory())


def _until_ready(platform: PrivatePlatform, name: str) -> str:
    """Why it does not become ready, "" once it is. The first reason is the verdict: the host only tries it again."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        status = platform.gateway.system("GET", f"/system/function/{name}").json()
        if status.get("availableReplicas", 0) > 0:
            return ""
        why = _said(status)
        if why:
            return why
        if time.monotonic() > deadline:
            return f"It was not ready within {START_TIMEOUT_S:g} s."
        time.sleep(_PAUSE_S)


def _said(status: Mapping[str, Any]) -> str:
    """What `describe` says of a function beside its numbers."""
    return str((status.get("annotations") or {}).get(WHY, ""))


def _call(platform: PrivatePlatform, name: str, request: Request) -> Answer:
    headers = {"Content-Type": "text/plain", **request.headers}
    timeout_s = request.timeout_s + GRACE_S
    began = time.perf_counter()
    with platform.gateway.stream("POST", f"/function/{name}", None, headers, request.body, timeout_s) as response:
        try:
            body = response.read()
        except (OSError, HTTPException) as error:
            raise SlicewiseError("unavailable", f"The handler's answer broke off: {error}.") from error
        seconds = time.perf_counter() - began
        return Answer(response.status, body, seconds, {key.lower(): value for key, value in response.getheaders()})


def _report(platform: PrivatePlatform, name: str) -> dict[str, Any]:
    with platform.gateway.stream("GET", f"/function/{name}/_/calls", timeout_s=GRACE_S) as response:
        text = response.read()
    try:
        document = json.loads(text)
    except ValueError:
        return {}  # its replica has died; the answers say so
    return document if isinstance(document, dict) else {}


def _log(platform: PrivatePlatform, name: str) -> str:
    gateway = platform.gateway
    query = {"name": name, "tail": str(_LOG_LINES), "follow": "false"}
    with gateway.stream("GET", "/system/logs", query, gateway.authorized(), timeout_s=GRACE_S) as answer:
        if answer.status >= 400:
            return ""
        return "\n".join(str(json.loads(line)["text"]).rstrip("\n") for line in answer if line.strip())
