"""Whose a listening TCP socket of this machine is: a port says nothing of who has taken it.

A function's own server listens on a port of loopback, which any process may bind while that server is away. Whoever
connects there asks the kernel for the listener's user before a request goes out: one netlink message, some
20 microseconds. The message is `inet_diag_req_v2` of linux/inet_diag.h, see sock_diag(7).
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import Any

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, _NLMSG_ERROR = 4, 20, 1, 2
_LISTEN = 1 << 10
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_SOCKET = struct.Struct("!HH16s16s")
_UID_OFFSET = _HEADER.size + 4 + 48 + 12


def listener(address: Any) -> int | None:
    """The user of the socket that listens at (host, port, ...); None if there is none. Raises OSError where it cannot
    be asked."""
    ip = ipaddress.ip_address(address[0].partition("%")[0])
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN)
    body += _SOCKET.pack(int(address[1]), 0, ip.packed, b"") + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    head = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(1.0)  # the kernel answers within the call
        asking.send(head + body)
        answer = asking.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind == _NLMSG_ERROR:
        number = -int(struct.unpack_from("=i", answer, _HEADER.size)[0])
        if number in (errno.ENOENT, errno.ENODEV):
            return None
        raise OSError(number, "the kernel does not tell who listens")
    return int(struct.unpack_from("=I", answer, _UID_OFFSET)[0])
