"""The way to the broker: a small pool of connections, opened lazily, never shared across a fork.

One request occupies one connection until its answer is there, so answers need no sorting and a
thread that dies in the middle spoils nobody else's.
"""

import os
import socket
import sys
import threading
import time

from . import PROTOCOL, frames
from .errors import SlicewiseError

# The broker keeps the deadlines of calls; these only end a wait for a broker that has died without a word.
CALL_TIMEOUT_S = float(os.environ.get("SLICEWISE_WAIT_S") or 3600.0)
REGISTER_TIMEOUT_S = 900.0
OPEN_TIMEOUT_S = 30.0
MAX_CONNECTIONS = 128


class _Pool:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.idle = []
        self.lock = threading.Lock()
        self.room = threading.BoundedSemaphore(MAX_CONNECTIONS)


_pool = _Pool()


def _after_fork() -> None:
    global _pool
    inherited = _pool.idle
    _pool = _Pool()
    for sock in inherited:
        sock.close()


os.register_at_fork(after_in_child=_after_fork)


def _python() -> str:
    return "{}.{}".format(*sys.version_info[:2])


def _torch_version() -> str:
    torch = sys.modules.get("torch")
    return str(getattr(torch, "__version__", "")) if torch is not None else ""


def _open():
    path = os.environ.get("SLICEWISE_SOCKET", "")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.settimeout(OPEN_TIMEOUT_S)
        sock.connect(path)
        hello = {"id": 0, "op": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "python": _python()}
        hello["torch"] = _torch_version()
        hello["argv"] = [argument[:256] for argument in getattr(sys, "argv", [])[:16]]
        frames.send(sock, hello)
        answer, fds = frames.receive(sock)
        frames.close_fds(fds)
    except OSError as error:
        sock.close()
        raise SlicewiseError(
            "unavailable", "Slicewise's broker does not answer at {}: {}.".format(path or "an empty path", error)
        ) from error
    if not answer.get("ok"):
        sock.close()
        raise _failure(answer)
    if answer.get("protocol", PROTOCOL) != PROTOCOL:
        sock.close()
        raise SlicewiseError(
            "conflict",
            "Slicewise's broker speaks protocol {} and this process's runtime {}; deploy the function anew.".format(
                answer.get("protocol"), PROTOCOL
            ),
        )
    return sock


def _failure(answer) -> SlicewiseError:
    error = answer.get("error") or {}
    return SlicewiseError(str(error.get("code", "internal")), str(error.get("message", "The broker gave no reason.")))


def greet() -> None:
    """Say hello now, so that the function counts as interposed; later requests use the same connection."""
    pool = _pool
    with pool.lock:
        if pool.idle:
            return
    sock = _open()
    with pool.lock:
        pool.idle.append(sock)


def note(text) -> None:
    """Have `slicewise describe` show this sentence; nobody waits for it to be heard."""
    try:
        ask({"op": "note", "text": text}, timeout_s=OPEN_TIMEOUT_S)
    except SlicewiseError:
        return


def _send(pool, header, fds):
    """A connection on which `header` is sent; an idle one whose broker has restarted is replaced."""
    while True:
        with pool.lock:
            sock = pool.idle.pop() if pool.idle else None
        fresh = sock is None
        if fresh:
            sock = _open()
        try:
            frames.send(sock, header, fds)
            return sock
        except OSError as error:
            sock.close()
            if fresh or isinstance(error, frames.FrameError):
                raise


def request(header, fds=(), timeout_s=CALL_TIMEOUT_S):
    """(answer, descriptors) of one request; an answer that is not ok comes back too.

    Raises SlicewiseError `unavailable` when the broker goes away, `deadline_in_call` when it stays silent.
    """
    pool = _pool
    if not pool.room.acquire(timeout=timeout_s):
        raise SlicewiseError(
            "unavailable", "{} model calls of this process are under way already.".format(MAX_CONNECTIONS)
        )
    try:
        header = dict(header, id=1)
        started = time.monotonic()
        sock = None
        try:
            sock = _send(pool, header, fds)
            sock.settimeout(timeout_s)
            answer, received = frames.receive(sock)
        except socket.timeout as error:
            sock.close()
            raise SlicewiseError(
                "deadline_in_call",
                "Slicewise's broker has not answered {!r} for {:.0f} s.".format(
                    header.get("op"), time.monotonic() - started
                ),
            ) from error
        except SlicewiseError:
            raise
        except OSError as error:
            if sock is not None:
                sock.close()
            raise SlicewiseError(
                "unavailable",
                "Slicewise's broker went away during {!r} ({}); the call may be repeated.".format(
                    header.get("op"), error
                ),
            ) from error
        except BaseException:
            if sock is not None:  # its answer would be taken for the next request's
                sock.close()
            raise
        with pool.lock:
            pool.idle.append(sock)
        return answer, received
    finally:
        pool.room.release()


def ask(header, fds=(), timeout_s=REGISTER_TIMEOUT_S):
    """The answer to a request whose failure is the platform's; raises SlicewiseError."""
    answer, received = request(header, fds, timeout_s)
    frames.close_fds(received)
    if not answer.get("ok"):
        raise _failure(answer)
    return answer
