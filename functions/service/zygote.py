"""`python -m functions.service.zygote function|broker FD`: forks replicas from a process that has imported.

It does nothing but fork, reap and tell, in one thread, so that children start with no lock held and no
thread lost. The function zygote imports the template's server (and torch for GPU functions, without one
tensor operation); the broker zygote imports the broker, without making any gRPC object.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable

from functions.service import confine, orders
from proto.wire import frames

# The frame that carries an order brings these descriptors, in this order.
ORDER, FIRST, SECOND = 0, 1, 2


def main() -> int:
    """Serve fork orders on the socket pair whose end is descriptor FD, until the host closes it."""
    kind, descriptor = sys.argv[1], int(sys.argv[2])
    confine.die_with_parent(int(sys.argv[3]))
    confine.name_process(f"sw-{kind}-zygote")
    _preimport(kind, sys.argv[4:])
    control = socket.socket(fileno=descriptor)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the host ends us by closing the socket
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    frames.send(control, {"ready": os.getpid()})
    gc.collect()
    gc.freeze()  # what is imported stays shared with all children
    run = _fork_loop(control, wake_read, _children()[kind])
    if run is None:
        return 0
    os.close(wake_read)
    os.close(wake_write)
    return _in_child(run)


def _children() -> dict[str, Callable[[list[int]], int]]:
    return {"function": _become_function, "broker": _become_broker}


def _preimport(kind: str, modules: list[str]) -> None:
    if kind == "broker":
        importlib.import_module("functions.service.broker.main")
        return
    importlib.import_module("functions.service.template")
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:  # a function that needs it will say so itself
            print(f"{name} cannot be imported in this environment", file=sys.stderr)
            traceback.print_exc()


def _fork_loop(control: socket.socket, wake: int, child: Callable[[list[int]], int]) -> Callable[[], int] | None:
    """Fork on command. Returns None in the zygote at its end, what to run in every child."""
    watched: list[socket.socket | int] = [control, wake]
    while True:
        readable, _, _ = select.select(watched, [], [])
        if wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            _reap(control)
        if control not in readable:
            continue
        try:
            header, fds = frames.receive(control)
        except (frames.FrameError, OSError):
            return None
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            control.close()
            confine.die_with_parent(parent)
            return lambda: child(fds)
        frames.close_fds(fds)
        _tell(control, {"id": header["id"], "ok": True, "pid": pid})


def _tell(control: socket.socket, header: frames.Header) -> None:
    with contextlib.suppress(OSError):
        frames.send(control, header)


def _reap(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(control, {"exited": pid, "status": os.waitstatus_to_exitcode(status)})


def _in_child(run: Callable[[], int]) -> int:
    try:
        code = run()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _become_broker(fds: list[int]) -> int:
    order = orders.unpack_broker(fds[ORDER])
    os.close(fds[ORDER])
    confine.name_process(f"sw-b-{order.function}")
    confine.enter(order.confinement, os.getppid())
    broker = importlib.import_module("functions.service.broker.main")
    return int(broker.run(order, socket.socket(fileno=fds[FIRST])))


def _become_function(fds: list[int]) -> int:
    order = orders.unpack_function(fds[ORDER])
    os.dup2(fds[FIRST], 1)
    os.dup2(fds[SECOND], 2)
    frames.close_fds(fds)
    confine.name_process(order.name)
    confine.enter(order.confinement, os.getppid())
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    if order.command:
        try:
            os.execvpe(order.command[0], order.command, order.environment)
        except OSError as error:
            print(f"{order.command[0]} cannot be started: {error.strerror}", file=sys.stderr)
            return 127
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    template = sys.modules["functions.service.template"]
    _leave_platform(order)
    _customize(order.environment.get("PYTHONPATH", ""))
    return int(template.serve(order))


def _leave_platform(order: orders.FunctionOrder) -> None:
    """Take our own names out of the user's interpreter: `proto`, `functions` and others may be theirs too."""
    ours = ("functions", "proto")
    for name in [name for name in sys.modules if name.split(".")[0] in ours]:
        del sys.modules[name]
    hidden = {os.path.realpath(entry) for entry in order.hide}
    sys.path[:] = order.path + [entry for entry in sys.path if os.path.realpath(entry) not in hidden]
    main_module = type(sys)("__main__")
    sys.modules["__main__"] = main_module
    sys.argv[:] = ["function"]
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:  # it was seeded before the fork, the same for every replica
        numpy_random.seed()


def _customize(python_path: str) -> None:
    """Run the image's own sitecustomize, as Python does at its start; the environment's has run in the zygote."""
    entries = [entry for entry in python_path.split(os.pathsep) if entry]
    theirs = [entry for entry in entries if not os.path.isdir(os.path.join(entry, "_slicewise"))]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", theirs) if theirs else None
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    sys.exit(main())
