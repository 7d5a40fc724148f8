"""uvicorn as a part of a process of ours: what every one of its HTTP servers has in common.

Our process has the loop, the signals and the logs; there is no WebSocket and no proxy in front. Heads and bodies are
the application's.
"""

from __future__ import annotations

from typing import Any

import uvicorn

# Connections that the kernel holds until they are accepted.
BACKLOG = 2048


def config(app: Any, keep_alive_s: float, **own: Any) -> uvicorn.Config:
    """For an ASGI 3 application; `own` are further keys of uvicorn.Config."""
    common: dict[str, Any] = {
        "interface": "asgi3",
        "loop": "none",
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "backlog": BACKLOG,
        "timeout_keep_alive": int(keep_alive_s),
    }
    return uvicorn.Config(app, **common, **own)
