"""The HTTP hop to a replica: connections are kept, nothing is followed, nothing is decompressed.

Whether a failed request may be sent again hangs on one question: may the replica have seen it?
`Unreachable` says no; every other failure leaves it open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gateway.core.forwarding import Headers
from proto.types.errors import SlicewiseError

CONNECT_TIMEOUT_S = 5.0
# Shorter than a broker keeps an idle connection, so that we do not send into one that is being closed.
IDLE_S = 4.0
_MAX_FIELD_BYTES = 1024 * 1024
_MAX_FIELDS = 1000
# How much of an answer is read ahead of a slow client.
_READ_AHEAD_BYTES = 256 * 1024

Body = bytes | AsyncIterable[bytes] | None


class Unreachable(Exception):
    """No connection to the replica: it has not seen the request."""


class Answer:
    """A replica's answer whose headers have come; `chunk` gives the body as it arrives."""

    __slots__ = ("_content", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self.status = response.status
        self.headers: Headers = [(name.lower(), value) for name, value in response.raw_headers]

    async def chunk(self) -> bytes:
        """What has arrived, waiting if nothing has; b"" at the end. Raises SlicewiseError `function_died`."""
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, ConnectionError) as error:
            raise SlicewiseError("function_died", "The function broke off in the middle of its answer.") from error

    @property
    def at_end(self) -> bool:
        """Whether the whole body has been read."""
        return self._content.at_eof()

    def close(self) -> None:
        """Be done with it: the connection is kept if the body was read to its end, else closed."""
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Upstream:
    """One session for all replicas. Make it inside the event loop."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S, use_dns_cache=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=_MAX_FIELD_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
            max_headers=_MAX_FIELDS,
            read_bufsize=_READ_AHEAD_BYTES,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def send(
        self, address: str, method: str, target: bytes, headers: Headers, body: Body, length: int | None
    ) -> Answer:
        """Send a request and wait for the answer's headers; the caller brings the deadline.

        `length` is the body's when it is known and `body` is iterated. Raises Unreachable, or
        SlicewiseError `function_died` when the replica closed the connection without an answer.
        """
        fields = CIMultiDict([(name.decode("latin-1"), _text(value)) for name, value in headers])
        if length is not None and not isinstance(body, bytes):
            fields["content-length"] = str(length)
        try:
            response = await self._session.request(
                method,
                URL(f"http://{address}{target.decode('latin-1')}", encoded=True),
                headers=fields,
                data=body or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(str(error)) from error
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError) as error:
            raise SlicewiseError("function_died", "The function closed the connection without an answer.") from error
        return Answer(response)


def _text(value: bytes) -> str:
    # aiohttp sends text as UTF-8; bytes that are not UTF-8 were Latin-1 when they were written.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
