"""Packages between nodes: fetched by digest from a peer that has them, served to peers that ask."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import random
from collections.abc import AsyncIterator, Iterable

import grpc
import grpc.aio

from gpu_manager.service.store import Store, function_of
from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.wire import peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

_log = logging.getLogger(__name__)

ROUNDS = 3  # over all peers that are said to have it
BACKOFF_S = 0.2
PULL_TIMEOUT_S = 120.0
MAX_PEERS = 8


async def pull(store: Store, model: Model, addresses: Iterable[str], credential: str) -> None:
    """See that a package is in the store; raises the last peer's SlicewiseError when none could give it."""
    sources = list(dict.fromkeys(addresses))[:MAX_PEERS]
    async with store.arriving(model) as known:
        if known is not None:
            return
        failure = SlicewiseError("unavailable", f"No node that can be reached has model {model.digest}.", 1.0)
        for attempt in range(ROUNDS if sources else 0):
            if attempt:
                await asyncio.sleep(BACKOFF_S * 2**attempt * random.uniform(0.5, 1.5))
            for address in sources:
                try:
                    await _from(store, model, address, credential)
                    return
                except SlicewiseError as error:
                    failure = error
                    if error.code == "disk_full":
                        raise
                except (grpc.aio.AioRpcError, ValueError, KeyError) as error:
                    _log.warning("pulling %s from %s failed: %s", model.digest, address, error)
        raise failure


async def _from(store: Store, model: Model, address: str, credential: str) -> None:
    function = function_of(model)
    channel = peers.channel(address)
    incoming = store.begin(model)
    try:
        request = pb.PullRequest(digest=model.digest, function=function)
        stream = rpc.GpuManagerStub(channel).Pull(request, metadata=peers.metadata(credential), timeout=PULL_TIMEOUT_S)
        sha256, whole = "", False
        async for chunk in stream:
            if chunk.header:
                head = json.loads(chunk.header)
                if "error" in head:
                    raise SlicewiseError(head["error"]["code"], head["error"]["message"])
                sha256 = str(head["sha256"])
            if chunk.data:
                await asyncio.to_thread(incoming.write, chunk.data)
            whole = whole or chunk.last
        if not whole:
            raise SlicewiseError("bad_digest", f"The package of {model.digest} was cut short.")
        await asyncio.to_thread(incoming.finish, sha256)
        _log.info("model %s was pulled from %s", model.digest, address)
    finally:
        incoming.abandon()
        await channel.close(None)


async def serve(store: Store, request: pb.PullRequest) -> AsyncIterator[pb.Chunk]:
    """The chunks of one package: first its record, then its bytes."""
    try:
        stored = store.get(request.function, request.digest)
        fd = store.open(request.function, request.digest)
    except SlicewiseError as error:
        yield pb.Chunk(header=json.dumps({"error": {"code": error.code, "message": error.message}}), last=True)
        return
    assert stored is not None
    with os.fdopen(fd, "rb", buffering=0) as file:
        head = {"model": dataclasses.asdict(stored.model), "sha256": stored.sha256, "size": stored.size}
        yield pb.Chunk(header=json.dumps(head), last=stored.size == 0)
        left = stored.size
        while left:
            block = await asyncio.to_thread(file.read, min(peers.CHUNK_BYTES, left))
            if not block:
                return
            left -= len(block)
            yield pb.Chunk(data=block, last=left == 0)
