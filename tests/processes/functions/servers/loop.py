"""aiohttp's server."""

import json
import sys

import affine
import asgi
from aiohttp import web


async def handle(request):
    values = await asgi.values(request.path, json.loads(await request.read()))
    return web.Response(body=affine.document(values), content_type="application/json")


application = web.Application()
application.router.add_post("/{path:.*}", handle)
web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None)
