"""A worker runs anybody's code: what it says to its GPU manager is not taken for granted, and nobody waits for it."""

from __future__ import annotations

import os
import socket

import pytest
import torch

from tests.node_rig.models import pack
from tests.node_rig.rig import Rig

pytestmark = pytest.mark.live

A, B = "alpha.openfaas-fn@1", "beta.openfaas-fn@1"
UID = 54321 if os.geteuid() == 0 else 0


class Babbler(torch.nn.Module):
    """Says `words` on every socket that its process has, when it is called."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.words = words

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in os.listdir("/proc/self/fd"):
            try:
                with socket.socket(fileno=os.dup(int(name))) as line:
                    line.send(self.words.encode())
            except OSError:
                continue
        return x * self.weight


@pytest.mark.parametrize(
    "words",
    [
        "no JSON",
        "[1]",
        '{"id": "2", "ok": true}',
        '{"id": 987654, "ok": true}',
        '{"id": 2, "ok": true, "infer_s": 1}',
        '{"id": 2, "ok": false, "needed_bytes": "many"}',
        '{"id": 2, "ok": false, "error": 7}',
    ],
)
async def test_a_worker_that_babbles_ends_alone(rig: Rig, words: str) -> None:
    await rig.node(slices="1x1g:400MiB")
    client = await rig.client()
    babbler, good = pack(Babbler(words), A), pack(torch.nn.Linear(2, 2), B)
    for package in (babbler, good):
        assert (await client.put(package))["ok"]
    token = rig.token(A, uid=UID)
    answer = await client.infer(token, babbler, torch.ones(1), deadline_s=20.0)
    if not answer["ok"]:
        assert answer["error"]["code"] in ("worker_died", "model_failed", "internal"), answer
    await client.ask({"op": "end", "binding": token})
    other = await client.infer(rig.token(B, uid=UID), good, torch.ones(1, 2))
    assert other["ok"], other
    counts = (await rig.status())["slices"][0]["counts"]
    assert counts["calls"] == counts["loads"] == 0, counts
