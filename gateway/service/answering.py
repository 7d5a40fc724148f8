"""Writing answers to ASGI: the platform's own sentences, and a function's answer as it is produced."""

from __future__ import annotations

from uvicorn._types import ASGISendCallable

from gateway.core import failing
from gateway.core.forwarding import Headers
from gateway.service.upstream import Answer
from proto.types.errors import SlicewiseError


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
    while not answer.at_end:
        chunk = await answer.chunk()
        if chunk and answer.at_end:
            await send({"type": "http.response.body", "body": chunk, "more_body": False})
            return
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
