"""Writing answers to ASGI: the platform's own sentences, and a function's answer as it is produced."""

from __future__ import annotations

from uvicorn._types import ASGISendCallable

from gateway.core import failing
from proto.types.errors import SlicewiseError
from proto.types.headers import Headers
from proto.wire.http.pool import Answer


async def send_failure(send: ASGISendCallable, error: SlicewiseError, own: Headers, close: bool = False) -> int:
    """Answer with the error's status and sentence; the status."""
    answer = failing.answer(error)
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
    if close:
        headers.append((b"connection", b"close"))
    await send_text(send, answer.status, headers + own, answer.body)
    return answer.status


async def send_text(send: ASGISendCallable, status: int, headers: Headers, body: bytes) -> None:
    """A whole answer at once."""
    sized = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": sized, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def stream(send: ASGISendCallable, answer: Answer, headers: Headers) -> None:
    """Pass a function's answer on: its headers at once, each chunk when it comes, its end.

    Raises SlicewiseError `function_died` when the function breaks off; the client then sees a cut answer.
    """
    await send({"type": "http.response.start", "status": answer.status, "headers": headers, "trailers": False})
    last = False
    while not last:
        data, last = await answer.part()
        await send({"type": "http.response.body", "body": data, "more_body": not last})
