"""uvicorn's HTTP protocol with a bound on the request's head.

httptools accepts heads of any length; clients do send 32 KiB of headers, but nobody sends megabytes.
"""

from __future__ import annotations

import logging
from typing import Any

from proto.wire.http.serving import Front

_log = logging.getLogger(__name__)


def bounded_protocol(max_header_bytes: int) -> type[Front]:
    """A protocol class that answers 431 to a head of more than `max_header_bytes`."""
    text = f"The request line and headers are longer than {max_header_bytes} bytes together.\n".encode()
    answer = (
        b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"connection: close\r\ncontent-length: " + str(len(text)).encode() + b"\r\n\r\n" + text
    )

    class BoundedProtocol(Front):
        _in_head = False
        _head_bytes = 0

        def on_message_begin(self) -> None:
            self._in_head = True
            self._head_bytes = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._in_head and not self.transport.is_closing():
                # What has come since the head began, at most one read too much.
                self._head_bytes += len(data)
                if self._head_bytes > max_header_bytes:
                    self.transport.write(answer)
                    self.transport.close()

        def _unsupported_upgrade_warning(self) -> None:
            """An upgrade that is not spoken here is answered as a plain request; that is no news."""

        def _should_upgrade_to_ws(self) -> Any:
            return False

    return BoundedProtocol
