"""An ASGI application of no framework: the model is called on the loop, in threads, and several times at once."""

import asyncio
import concurrent.futures
import json

import affine

POOL = concurrent.futures.ThreadPoolExecutor(2)


async def values(path, numbers):
    if path == "/idle":
        return []
    if path == "/thread":
        return await asyncio.to_thread(affine.run, numbers)
    if path == "/executor":
        return await asyncio.get_running_loop().run_in_executor(POOL, affine.run, numbers)
    if path == "/gather":
        parts = await asyncio.gather(*(asyncio.to_thread(affine.run, [number]) for number in numbers))
        return [value for part in parts for value in part]
    return affine.run(numbers)


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    answer = affine.document(await values(scope["path"], json.loads(body)))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
