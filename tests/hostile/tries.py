"""What hostile code tries. Each function is sent as text and runs alone, with the standard library only.

Each answers what it got: an empty answer is what a test wants to see.
"""

from __future__ import annotations

from typing import Any


def peek(pids: list[int]) -> list[str]:
    """Whatever of other processes /proc gives away."""
    import os

    got = []
    for pid in pids:
        for name in ("environ", "mem", "maps", "cmdline", "stack"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    file.read(1)
                got.append(f"{pid}/{name}")
            except OSError:
                pass
        for name in ("fd", "cwd", "root", "task", "map_files"):
            try:
                os.listdir(f"/proc/{pid}/{name}")
                got.append(f"{pid}/{name}")
            except OSError:
                pass
    return got


def others() -> list[str]:
    """Names of processes of other users that can be seen."""
    import os

    seen = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid != os.getuid():
                with open(f"/proc/{name}/comm") as file:
                    seen.append(file.read().strip())
        except OSError:
            pass
    return seen


def seize(pids: list[int]) -> list[str]:
    """Processes that can be traced, read, signalled or robbed of a descriptor."""
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    got = []
    for pid in pids:
        for name, request in (("attach", 16), ("seize", 0x4206)):
            if libc.ptrace(request, pid, None, None) == 0:
                got.append(f"{pid} {name}")
                libc.ptrace(17, pid, None, None)
        buffer = ctypes.create_string_buffer(8)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
        far = (ctypes.c_void_p * 2)(0x400000, 8)
        ctypes.set_errno(0)
        if libc.process_vm_readv(pid, vector, 1, far, 1, 0) >= 0 or ctypes.get_errno() == 14:  # EFAULT: it may read
            got.append(f"{pid} read")
        try:
            os.kill(pid, 0)
            got.append(f"{pid} signal")
        except OSError:
            pass
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue
        for number in range(16):
            if libc.syscall(438, pidfd, number, 0) >= 0:
                got.append(f"{pid} descriptor {number}")
        os.close(pidfd)
    return got


def read(paths: list[str]) -> list[str]:
    """Files that can be read, folders that can be listed, and either that can be changed."""
    import os

    got = []
    for path in paths:
        try:
            if os.path.isdir(path):
                if os.listdir(path):
                    got.append(f"list {path}")
            else:
                with open(path, "rb") as file:
                    file.read(1)
                got.append(f"read {path}")
        except OSError:
            pass
        try:
            descriptor = os.open(
                os.path.join(path, "left-here") if os.path.isdir(path) else path, os.O_WRONLY | os.O_CREAT
            )
            os.close(descriptor)
            got.append(f"write {path}")
        except OSError:
            pass
    return got


def writable() -> list[str]:
    """Folders in which it can leave a file, besides those that are nobody else's; into those it puts one."""
    import os

    got = []
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        with open(f"{folder}/slicewise-left-here", "w") as file:
            file.write("x")
    for folder, names, _ in os.walk("/", onerror=None):
        if folder in ("/proc", "/sys", "/tmp", "/var/tmp", "/dev/shm"):
            names.clear()
            continue
        names[:] = [
            name for name in names if name not in ("site-packages", "doc", "locale", "zoneinfo", "node_modules")
        ]
        if folder.count("/") > 5:
            names.clear()
        if os.access(folder, os.W_OK):
            got.append(folder)
    return got


def survive(setsid: bool, namespace: bool) -> list[int]:
    """Leave processes behind: double-forked, in a session and user namespace of their own, without a mark. Their pids.

    They bear the name `survivor`, and hold memory.
    """
    import ctypes
    import os
    import time

    libc = ctypes.CDLL(None, use_errno=True)
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        if setsid:
            os.setsid()
        second = os.fork()
        if second == 0:
            if namespace:
                libc.unshare(0x10000000 | 0x00020000)
            libc.prctl(15, b"survivor", 0, 0, 0)
            for number in (1, 2, 15):
                import signal

                signal.signal(number, signal.SIG_IGN)
            os.write(writing, b"%d " % os.getpid())
            os.closerange(0, 64)
            time.sleep(600)
        os._exit(0)
    os.waitpid(first, 0)
    return [int(word) for word in os.read(reading, 100).split()]


def bomb(most: int) -> dict[str, Any]:
    """Fork as fast as it goes; how many came to be, and what stopped it. They end with the attempt."""
    import os
    import signal
    import time

    made: list[int] = []
    why = ""
    while len(made) < most:
        try:
            pid = os.fork()
        except OSError as error:
            why = error.strerror
            break
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        made.append(pid)
    for pid in made:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"made": len(made), "why": why}


def wild(branches: int) -> None:
    """A fork bomb that nobody ends: lines of processes, each of which makes its heir and goes, for ever."""
    import os
    import signal
    import time

    for _ in range(branches):
        if os.fork():
            continue
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
            time.sleep(0.002)


def fill(folder: str, mib: int) -> dict[str, Any]:
    """Write so many MiB into a folder; how many went in, and what stopped it. It is empty again afterwards."""
    import contextlib
    import os

    path, written, why = os.path.join(folder, "filling"), 0, ""
    try:
        with open(path, "wb", buffering=0) as file:
            while written < mib:
                if file.write(b"x" * (1 << 20)) < 1 << 20:
                    continue
                written += 1
    except OSError as error:
        why = error.strerror
    with contextlib.suppress(OSError):
        os.unlink(path)
    return {"mib": written, "why": why}


def swell(mib: int) -> int:
    """Touch so many MiB of memory."""
    kept = [bytearray(b"x" * (1 << 20)) for _ in range(mib)]
    return len(kept)


def dial(addresses: list[Any]) -> list[str]:
    """What of (host, port), path or abstract name lets it connect."""
    import socket

    got = []
    for address in addresses:
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            inet = isinstance(address, list)
            if inet and kind == socket.SOCK_SEQPACKET:
                continue
            try:
                with socket.socket(socket.AF_INET if inet else socket.AF_UNIX, kind) as sock:
                    sock.settimeout(2)
                    sock.connect(tuple(address) if inet else address)
                    got.append(str(address))
                    break
            except OSError:
                pass
    return got


def fetch(port: int, method: str, path: str, body: str, headers: dict[str, str]) -> list[Any]:
    """An HTTP request to a port on loopback: [status, text]; [0, why] if there is nobody."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body.encode(), headers)
        answer = connection.getresponse()
        return [answer.status, answer.read().decode(errors="replace")[:2000]]
    except (OSError, http.client.HTTPException) as error:
        return [0, str(error)]
    finally:
        connection.close()


def interfaces() -> list[str]:
    """Network interfaces beside loopback, and routes."""
    import socket

    names = [name for _, name in socket.if_nameindex()]
    with open("/proc/net/route") as file:
        routes = file.read().splitlines()[1:]
    return [name for name in names if name != "lo"] + routes


def who() -> dict[str, Any]:
    """What this process is."""
    import os

    return {"pid": os.getpid(), "uid": os.getuid(), "groups": os.getgroups(), "environment": dict(os.environ)}


def nothing() -> str:
    """It answers."""
    return "here"


def listed(folder: str) -> list[str]:
    """What a folder holds."""
    import os

    return sorted(os.listdir(folder))


def squat(ports: list[int]) -> list[int]:
    """Take ports and answer whatever comes there, until `leave_ports`; those that it got."""
    import builtins
    import http.server
    import threading

    class Squatter(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"squatter")

        do_GET = do_POST

    servers = []
    for port in ports:
        try:
            servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", port), Squatter))
        except OSError:
            continue
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
    builtins.squatters = servers  # type: ignore[attr-defined]
    return [server.server_address[1] for server in servers]


def leave_ports() -> list[int]:
    """Give them back."""
    import builtins

    servers = builtins.squatters  # type: ignore[attr-defined]
    for server in servers:
        server.shutdown()
        server.server_close()
    return [server.server_address[1] for server in servers]


def hold(folder: str, file_mib: int, memory_mib: int) -> int:
    """A file of so many MiB, and so much memory beside it."""
    with open(f"{folder}/held", "wb") as file:
        for _ in range(file_mib):
            file.write(b"x" * (1 << 20))
    return len([bytearray(b"x" * (1 << 20)) for _ in range(memory_mib)])
