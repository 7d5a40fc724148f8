"""Which invocation this code runs for: a token that the broker sends with the request.

Threads, thread pools and process pools inherit it from whoever starts or feeds them; asyncio tasks
and forked processes do by themselves. `servers` reads it from requests; elsewhere calls carry no
token and bind late.
"""

import contextvars
import functools
import threading

call = contextvars.ContextVar("slicewise_call", default="")


class Carried:
    """A function that runs for the invocation which handed it over; it may be pickled for another process."""

    def __init__(self, function) -> None:
        self._token = call.get()
        self._function = function

    def __call__(self, *args, **kwargs):
        reset = call.set(self._token)
        try:
            return self._function(*args, **kwargs)
        finally:
            call.reset(reset)


def follow_threads() -> None:
    """Make threads inherit the token of whoever starts them."""
    start = threading.Thread.start

    @functools.wraps(start)
    def start_with_token(self):
        if call.get():
            self.run = Carried(self.run)
        return start(self)

    threading.Thread.start = start_with_token


def follow_thread_pools(module) -> None:
    """Make `concurrent.futures.thread` hand the token of whoever submits to the work."""
    _carry(module.ThreadPoolExecutor, "submit")


def follow_process_pools(module) -> None:
    """The same for `concurrent.futures.process`."""
    _carry(module.ProcessPoolExecutor, "submit")


def follow_pools(module) -> None:
    """The same for `multiprocessing.pool`, of processes and of threads, whatever method feeds them."""
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        _carry(module.Pool, name)


def _carry(kind, name) -> None:
    """Wrap the function that `kind.name(function, ...)` is given.

    Also where there is no token: a pool's own thread may have one, of the invocation that started it.
    """
    original = getattr(kind, name)

    @functools.wraps(original)
    def feed(self, function, /, *args, **kwargs):
        return original(self, Carried(function), *args, **kwargs)

    setattr(kind, name, feed)
