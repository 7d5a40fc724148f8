"""One JSON object a line on stderr, with the call id where there is one: the log of every service."""

from __future__ import annotations

import contextvars
import logging
import sys

from pythonjsonlogger.json import JsonFormatter

call_id: contextvars.ContextVar[str] = contextvars.ContextVar("call_id", default="")


class _CallId(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        current = call_id.get()
        if current:
            record.call_id = current
        return True


def configure(service: str, level: str = "INFO") -> None:
    """Send the root logger to stderr as JSON lines: time, level, service, logger, message, call_id."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            static_fields={"service": service},
        )
    )
    handler.addFilter(_CallId())
    logging.basicConfig(level=level, handlers=[handler], force=True)
