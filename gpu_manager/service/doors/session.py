"""What a client of the data door may do, the same over both doors: hello is behind it, its subject known.

A session ends with its connection: what it has waiting is cancelled then, and frees its place.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from collections.abc import Callable, Coroutine
from typing import Any

from gpu_manager.service.calls import PendingCall, Reply, failed
from gpu_manager.service.node import Node
from gpu_manager.service.store import check_digest, function_of
from proto.types.errors import REPEATABLE, SlicewiseError
from proto.types.models import Model
from proto.types.placing import Binding
from proto.wire import frames

_log = logging.getLogger(__name__)

MAX_INFERS = 4096  # of one connection, waiting or running
MAX_DIGESTS = 1024
MAX_BATCH = (1 << 31) - 1
MAX_DEADLINE_S = 24 * 3600.0
_NONE = Binding("", 0, "", "", "", "", "", "", 0, False, False, 0, 0)


def function_in(subject: str) -> str:
    """NAME.NAMESPACE of a replica's subject, "" for a service; raises SlicewiseError `forbidden` for others."""
    kind, _, name = subject.partition(":")
    if kind == "service":
        return ""
    if kind != "replica" or not name:
        raise SlicewiseError("forbidden", f"{subject} may not use the data door.")
    return name


class Session:
    """One client. `function` is the only one that it may speak for, "" for a service."""

    def __init__(self, node: Node, function: str) -> None:
        self._node = node
        self._function = function
        self._infers: dict[int, Callable[[], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def handle(self, header: dict[str, Any], fds: list[int], reply: Reply) -> None:
        """Carry out one request; its descriptors are ours from now on. `reply` is called once."""
        try:
            match header.get("op"):
                case "infer":
                    self._infer(header, fds, reply)
                    return
                case "probe":
                    answer = self._probe(header)
                case "put":
                    self._put(header, fds, reply)
                    return
                case "cancel":
                    cancel = self._infers.pop(int(header["target"]), None)
                    if cancel is not None:
                        cancel()
                    answer = {}
                case "end":
                    answer = self._end(header)
                case other:
                    raise SlicewiseError("bad_request", f"The data door knows no {other!r}.")
        except SlicewiseError as error:
            frames.close_fds(fds)
            reply(failed(error, repeatable=error.code in REPEATABLE), [])
            return
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            frames.close_fds(fds)
            text = f"The request is not as it should be: {type(error).__name__} {error}."
            reply(failed(SlicewiseError("bad_request", text)), [])
            return
        frames.close_fds(fds)
        reply({"ok": True, **answer}, [])

    def _infer(self, header: dict[str, Any], fds: list[int], reply: Reply) -> None:
        number = int(header["id"])
        if len(self._infers) >= MAX_INFERS:
            raise SlicewiseError("queue_full", f"{MAX_INFERS} calls of this connection are waiting.", 1.0)
        if number in self._infers:
            raise SlicewiseError("bad_request", f"Request {number} is still under way.")
        streams = bool(header.get("stream"))
        if streams and (len(fds) != 2 or not stat.S_ISSOCK(os.fstat(fds[1]).st_mode)):
            raise SlicewiseError("bad_request", "A call with a stream brings a socket beside its payload.")
        self._check_payload(fds[:1] if streams else fds, int(header.get("bytes") or 0))
        deadline_s = float(header.get("deadline_s") or MAX_DEADLINE_S)
        if not 0 < deadline_s <= MAX_DEADLINE_S:
            raise SlicewiseError("bad_request", "deadline_s must be above 0.")
        batch = int(header.get("batch") or 0)
        if not 0 <= batch <= MAX_BATCH:  # it goes on to the scheduler, whose messages have no room for more
            raise SlicewiseError("bad_request", f"batch must be between 0 and {MAX_BATCH}.")

        def answered(header: dict[str, Any], fds: list[int]) -> None:
            self._infers.pop(number, None)
            if self._closed:
                frames.close_fds(fds)
            else:
                reply(header, fds)

        # Set before the call starts: it may be answered before `infer` returns.
        self._infers[number] = lambda: None
        call = PendingCall(
            0, _NONE, str(header["model"]), str(header.get("method") or "forward"), header.get("layout"),
            batch, fds[0], answered, fds[1] if streams else -1,
        )  # fmt: skip
        try:
            cancel = self._node.infer(str(header["binding"]), self._function, call, deadline_s)
        except BaseException:
            self._infers.pop(number, None)
            raise
        if number in self._infers:
            self._infers[number] = cancel

    def _check_payload(self, fds: list[int], announced: int) -> None:
        if len(fds) != 1:
            raise SlicewiseError("bad_request", "This request carries exactly one descriptor.")
        found = os.fstat(fds[0])
        if not stat.S_ISREG(found.st_mode):
            raise SlicewiseError("bad_request", "The payload must be a memfd or a file.")
        if found.st_size > self._node.settings.max_payload_bytes:
            limit = self._node.settings.max_payload_bytes
            raise SlicewiseError("body_too_large", f"The call carries {found.st_size} bytes; {limit} are allowed.")
        if announced > found.st_size:
            raise SlicewiseError("body_cut", f"{announced} bytes were announced, {found.st_size} came.")

    def _probe(self, header: dict[str, Any]) -> dict[str, Any]:
        digests = [str(digest) for digest in header["digests"]]
        if len(digests) > MAX_DIGESTS:
            raise SlicewiseError("bad_request", f"At most {MAX_DIGESTS} digests are looked up at once.")
        function = self._function or str(header["function"])
        return {"missing": [digest for digest in digests if self._node.store.get(function, digest) is None]}

    def _put(self, header: dict[str, Any], fds: list[int], reply: Reply) -> None:
        fields = dict(header["model"])
        fields["distributions"] = tuple((str(n), str(v)) for n, v in fields.get("distributions") or ())
        model = Model(**fields)
        check_digest(model.digest)
        if self._function and function_of(model) != self._function:
            raise SlicewiseError("forbidden", f"This model is not of {self._function}.")
        if len(fds) != 1 or not stat.S_ISREG(os.fstat(fds[0]).st_mode):
            raise SlicewiseError("bad_request", "put carries the package as one memfd or file.")
        self._spawn(self._store(model, fds, reply))

    async def _store(self, model: Model, fds: list[int], reply: Reply) -> None:
        try:
            await self._node.store.put(model, fds[0])
        except SlicewiseError as error:
            reply(failed(error), [])
        except Exception as error:
            _log.exception("storing %s failed", model.digest)
            text = f"The package could not be stored: {type(error).__name__}."
            reply(failed(SlicewiseError("internal", text)), [])
        else:
            reply({"ok": True, "stored": True}, [])
        finally:
            frames.close_fds(fds)

    def _end(self, header: dict[str, Any]) -> dict[str, Any]:
        try:
            binding = self._node.binding(str(header["binding"]))
        except SlicewiseError as error:
            if error.code == "binding_gone":
                return {}
            raise
        self._node.check_function(binding, self._function)
        self._node.end(binding.id)
        return {}

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """The client has gone."""
        self._closed = True
        infers, self._infers = self._infers, {}
        for cancel in infers.values():
            cancel()


def parse_header(text: str) -> dict[str, Any]:
    """A header that came as text; raises SlicewiseError `bad_request`."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SlicewiseError("bad_request", "The request's header is not JSON.") from error
    if not isinstance(header, dict):
        raise SlicewiseError("bad_request", "The request's header is not a JSON object.")
    return header
