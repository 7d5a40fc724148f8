"""A function's HTTP server under the test's control: it says what it saw, and waits where it is told to."""

from __future__ import annotations

import asyncio
import hashlib
import json

from aiohttp import web

from tests.gateway_rig.loop_thread import LoopThread


class StandInFunction:
    """One replica. Gates are opened by the test; what was begun and what was cancelled is recorded."""

    def __init__(self, loop: LoopThread, name: str) -> None:
        self.name = name
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.served = 0
        self._loop = loop
        self._gates: dict[str, asyncio.Event] = {}
        self._runner: web.AppRunner | None = None
        self.address = ""

    def start(self) -> None:
        self._loop.run(self._start())

    def stop(self) -> None:
        self._loop.run(self._stop())

    def open(self, gate: str) -> None:
        self._loop.call(lambda: self._gate(gate).set())

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    async def _start(self) -> None:
        app = web.Application(client_max_size=200 * 1024 * 1024, handler_args={"max_field_size": 2**20})
        app.router.add_route("*", "/stream/{gate}", self._stream)
        app.router.add_route("*", "/sleep/{gate}", self._sleep)
        app.router.add_route("*", "/die", self._die)
        app.router.add_route("*", "/half", self._half)
        app.router.add_route("*", "/half-close", self._half_close)
        app.router.add_route("*", "/status/{status}", self._status)
        app.router.add_route("*", "/early", self._early)
        app.router.add_route("*", "/bytes/{count}", self._bytes)
        app.router.add_route("*", "/{tail:.*}", self._echo)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, keepalive_timeout=60, shutdown_timeout=0.1, max_field_size=2**20
        )
        await self._runner.setup()
        port = int(self.address.rpartition(":")[2]) if self.address else 0
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.address = f"127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _echo(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.served += 1
        seen = {
            "replica": self.name,
            "method": request.method,
            "path": request.raw_path,
            "headers": [
                [name.decode("latin-1").lower(), value.decode("latin-1")] for name, value in request.raw_headers
            ],
            "length": len(body),
            "sha": hashlib.sha256(body).hexdigest(),
        }
        headers = {"X-Slicewise-Queue-Seconds": "0.001", "X-Slicewise-Load-Seconds": "0.25"}
        headers |= {"X-Slicewise-Infer-Seconds": "0.5", "X-Twice": "a", "Keep-Alive": "timeout=1"}
        return web.Response(text=json.dumps(seen), headers=headers, content_type="application/json")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        kind = request.query.get("type", "text/event-stream")
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        await self._gate(request.match_info["gate"]).wait()
        await response.write(b"data: last\n\n")
        await response.write_eof()
        return response

    async def _sleep(self, request: web.Request) -> web.Response:
        gate = request.match_info["gate"]
        await request.read()
        self.begun.append(gate)
        try:
            await self._gate(gate).wait()
        except asyncio.CancelledError:
            self.cancelled.append(gate)
            raise
        return web.Response(text=self.name)

    async def _die(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _half(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"x" * 50)
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _half_close(self, request: web.Request) -> web.StreamResponse:
        """An answer without a length, as HTTP/1.0 servers make it."""
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end")
        request.transport.close()
        return web.Response()

    async def _status(self, request: web.Request) -> web.Response:
        status = int(request.match_info["status"])
        headers = {"Location": "http://elsewhere.example/x"} if 300 <= status < 400 else {}
        return web.Response(status=status, headers=headers)

    async def _early(self, request: web.Request) -> web.Response:
        """Answers without reading the body."""
        return web.Response(status=413, text="not that much")

    async def _bytes(self, request: web.Request) -> web.Response:
        return web.Response(body=bytes(range(256)) * int(request.match_info["count"]))
