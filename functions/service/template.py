"""The templates python3-http and python3-flask: a user's `handle` behind waitress.

Signatures and answers are those of OpenFaaS' templates, without their traps: bytes stay bytes, lists
and dicts become JSON, NaN and infinities become strings that any JSON parser reads, and a body that is
a generator is sent as it is made. It runs inside the user's process, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import waitress
from waitress.channel import HTTPChannel
from waitress.task import WSGITask

if TYPE_CHECKING:
    from functions.service.orders import FunctionOrder

StartResponse = Callable[[str, list[tuple[str, str]]], Any]

# Answers up to waitress' own thread count run at once, the rest wait in its queue.
STUCK_EXIT = 70
# A longer body is not copied behind its headers.
TOGETHER_BYTES = 64 * 1024
_REASONS = {200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 304: "Not Modified", 400: "Bad Request"}
_REASONS |= {404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}
_NOT_FINITE = "A body cannot be written as JSON"


class Headers(dict[str, str]):
    """A request's headers, spelled Like-This, found in any spelling."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.title())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.title())

    def get(self, name: str, default: Any = None) -> Any:
        """The header or `default`."""
        return super().get(name.title(), default)


class Query(dict[str, str]):
    """A request's query: the first value of each name; `getlist` gives all."""

    def __init__(self, text: str) -> None:
        self._all = urllib.parse.parse_qs(text, keep_blank_values=True)
        super().__init__((name, values[0]) for name, values in self._all.items())

    def getlist(self, name: str) -> list[str]:
        """All values of one name, in order."""
        return self._all.get(name, [])


class Event:
    """What a handler is called with: `body` (bytes), `headers`, `method`, `query`, `path`."""

    __slots__ = ("body", "headers", "method", "path", "query")

    def __init__(self, environ: dict[str, Any]) -> None:
        length = environ.get("CONTENT_LENGTH")
        self.body: bytes = environ["wsgi.input"].read(int(length)) if length else b""
        self.headers = Headers()
        for key, value in environ.items():
            if key.startswith("HTTP_") and key != "HTTP_X_SLICEWISE_CALL":
                self.headers[key[5:].replace("_", "-").title()] = value
        if environ.get("CONTENT_TYPE"):
            self.headers["Content-Type"] = environ["CONTENT_TYPE"]
        if length:
            self.headers["Content-Length"] = length
        self.method: str = environ["REQUEST_METHOD"]
        self.query = Query(environ.get("QUERY_STRING", ""))
        self.path: str = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")


class Context:
    """The second argument of a handler."""

    def __init__(self) -> None:
        self.hostname = socket.gethostname()


class Application:
    """A WSGI application around one handler."""

    def __init__(self, handle: Callable[..., Any], template: str, started: Callable[[str], None] | None) -> None:
        self._handle = handle
        self._flask = template == "python3-flask"
        self._raw = os.environ.get("RAW_BODY", "").lower() in {"true", "1"}
        self._started = started
        self._context = Context()
        self.running: dict[int, float] = {}  # thread -> when its call began

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        thread = threading.get_ident()
        self.running[thread] = time.monotonic()
        try:
            if self._started is not None:
                self._started(environ.get("HTTP_X_SLICEWISE_CALL", ""))
            event = Event(environ)
            if self._flask:
                result = self._handle(event.body if self._raw else event.body.decode("utf-8", "replace"))
            else:
                result = self._handle(event, self._context)
            status, headers, body = to_answer(result)
            if isinstance(body, bytes):
                headers.append(("Content-Length", str(len(body))))
                start_response(_status_line(status), headers)
                return [b""] if event.method == "HEAD" or status in (204, 304) else [body]
            start_response(_status_line(status), headers)
            return Chunks(body, self.running)
        except SystemExit as leaving:
            _leave(leaving)
            raise
        except Exception as error:
            traceback.print_exc()
            _advise(error)
            return _failed(error, start_response)
        finally:
            self.running.pop(thread, None)


class Chunks:
    """A generator's chunks as bytes; its own failure is written to the log and cuts the answer."""

    def __init__(self, body: Iterator[Any], running: dict[int, float]) -> None:
        self._body = body
        self._running = running

    def __iter__(self) -> Iterator[bytes]:
        thread = threading.get_ident()
        self._running[thread] = time.monotonic()
        try:
            for chunk in self._body:
                yield chunk if isinstance(chunk, bytes) else _text(chunk).encode()
        except GeneratorExit:
            raise
        except SystemExit as leaving:
            _leave(leaving)
            raise
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            self._running.pop(thread, None)

    def close(self) -> None:
        """Called by the server at the end, also when the client has gone."""
        close = getattr(self._body, "close", None)
        if close is not None:
            close()


def to_answer(result: Any) -> tuple[int, list[tuple[str, str]], bytes | Iterator[Any]]:
    """(status, headers, body) of whatever a handler returned."""
    status: Any = 200
    given: Any = ()
    body: Any = result
    # A dict is an envelope if it says so; any other dict is what the caller wants to see as JSON.
    if isinstance(result, Mapping) and ({"statusCode", "body"} & result.keys() or result.keys() <= {"headers"}):
        status, given, body = result.get("statusCode", 200), result.get("headers") or (), result.get("body")
    elif isinstance(result, tuple) and 2 <= len(result) <= 3 and isinstance(result[1], int):
        body, status, given = (*result, ())[:3]
    headers = [(str(name), str(value)) for name, value in (given.items() if isinstance(given, Mapping) else given)]
    kind, content = _content(body)
    if kind and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", kind))
    headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
    return int(status), headers, content


def _content(body: Any) -> tuple[str, bytes | Iterator[Any]]:
    if body is None:
        return "", b""
    if isinstance(body, str):
        return "text/plain; charset=utf-8", body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return "application/octet-stream", bytes(body)
    if isinstance(body, Iterator):
        return "text/plain; charset=utf-8", body
    return "application/json", to_json(body).encode()


def _text(chunk: Any) -> str:
    return chunk if isinstance(chunk, str) else to_json(chunk) + "\n"


def to_json(value: Any) -> str:
    """JSON of a value; NaN and infinities as the strings "NaN", "Infinity", "-Infinity"."""
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """Arrays and numpy scalars as what they hold; the rest is a TypeError that names its class."""
    for name in ("tolist", "isoformat"):
        method = getattr(value, name, None)
        if method is not None:
            return _finite(method())
    raise TypeError(f"{_NOT_FINITE}: it holds a {type(value).__module__}.{type(value).__qualname__}.")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_finite(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _status_line(status: int) -> str:
    return f"{status} {_REASONS.get(status, 'Status')}"


def _advise(error: Exception) -> None:
    """A line in the log for the commonest mistake: "cuda" in a function that nobody has flagged."""
    unflagged = os.environ.get("SLICEWISE_GPU") != "1"
    if unflagged and any(part in str(error) for part in ("not compiled with CUDA", "no NVIDIA driver")):
        print(
            "This function has no GPU flag: deploy it with --label com.slicewise.gpu=true to use slices.",
            file=sys.stderr,
        )


def _failed(error: Exception, start_response: StartResponse) -> list[bytes]:
    """500 without the traceback. An error of the platform that the handler let pass is named for the broker."""
    body = b"The function raised an error; the traceback is in its log.\n"
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    code = getattr(error, "code", None)
    if isinstance(code, str) and type(error).__module__.split(".")[0] == "_slicewise":
        headers.append(("X-Slicewise-Raised", code))
    start_response("500 Internal Server Error", headers)
    return [body]


def _leave(leaving: SystemExit) -> None:
    """A handler that calls sys.exit means its process; in a thread that would only lose the answer."""
    code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    print(f"The handler called sys.exit({leaving.code!r}).", file=sys.stderr, flush=True)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(code)


def _watch(application: Application, threads: int, limit_s: float) -> None:
    """End the process when every thread is held by a call that was given up: nothing would be served any more."""
    while True:
        time.sleep(min(1.0, limit_s))
        overdue = time.monotonic() - limit_s - 1.0
        if sum(began < overdue for began in list(application.running.values())) >= threads:
            text = f"All {threads} threads are held by calls beyond exec_timeout ({limit_s:g} s); starting afresh."
            print(text, file=sys.stderr, flush=True)
            os._exit(STUCK_EXIT)


class _Held:
    """A channel that keeps what is written to it."""

    def __init__(self, channel: HTTPChannel) -> None:
        self._channel = channel
        self.held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def write_soon(self, data: bytes) -> int:
        self.held.append(data)
        return len(data)


class _Task(WSGITask):  # type: ignore[misc]
    """The headers leave with a short body: one packet, for which the broker wakes up once.

    waitress would send them by themselves here, as every write leaves at once.
    """

    channel: Any

    def write(self, data: bytes) -> None:
        """Write a piece of the body, the headers before the first."""
        if self.wrote_header or not 0 < len(data) <= TOGETHER_BYTES:
            super().write(data)
            return
        channel = self.channel
        keeping = _Held(channel)
        self.channel = keeping
        try:
            super().write(data)
        finally:
            self.channel = channel
        channel.write_soon(b"".join(keeping.held))


class _Channel(HTTPChannel):  # type: ignore[misc]
    task_class = _Task


def serve(order: FunctionOrder) -> int:
    """Import the handler, then serve it on the Unix socket `order.listen` until SIGTERM."""
    runtime: Any = None
    if order.gpu:
        runtime = importlib.import_module("_slicewise")
        runtime.activate()
    try:
        module = importlib.import_module(order.handler)
    except Exception as error:
        traceback.print_exc()
        _advise(error)
        return 1
    handle = getattr(module, "handle", None)
    if not callable(handle):
        print(f"{order.handler} defines no function handle.", file=sys.stderr)
        return 1
    if runtime is not None:
        runtime.import_finished()
    application = Application(handle, order.template, runtime.call_started if runtime is not None else None)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(order.listen)
    listener.bind(order.listen)
    os.chmod(order.listen, 0o660)  # its folder's group is the broker's
    server = waitress.create_server(
        application,
        sockets=[listener],
        threads=order.threads,
        send_bytes=1,  # every chunk leaves when it is made
        max_request_body_size=1 << 40,  # limits are the gateway's
        max_request_header_size=1 << 20,
        connection_limit=1000,
        channel_timeout=3600,
        channel_request_lookahead=1,  # notices a client that leaves while its answer is made
        cleanup_interval=3600,
        ident=None,
        clear_untrusted_proxy_headers=False,
    )
    server.channel_class = _Channel
    if order.exec_timeout_s > 0:
        arguments = (application, order.threads, order.exec_timeout_s)
        threading.Thread(target=_watch, args=arguments, daemon=True, name="watch").start()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.run()
    return 0
