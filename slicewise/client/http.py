"""The gateway over HTTP with the standard library alone: a command must start in a blink."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from proto.types.errors import SlicewiseError

DEFAULT_GATEWAY = "http://127.0.0.1:8080"
MANAGEMENT_TIMEOUT_S = 60.0
# A first call may load a model; the gateway's own limits end it earlier.
INVOKE_TIMEOUT_S = 600.0


def choose_gateway(flag: str | None, from_file: str = "") -> str:
    """--gateway, then stack.yml, then OPENFAAS_URL, then the default; in faas-cli's spelling."""
    chosen = flag or from_file or os.environ.get("OPENFAAS_URL", "") or DEFAULT_GATEWAY
    # faas-cli stores logins under the lower-cased URL without a slash at its end.
    chosen = chosen.strip().lower().rstrip("/")
    return chosen if chosen.startswith(("http://", "https://")) else f"http://{chosen}"


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body; raises SlicewiseError when it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise SlicewiseError("internal", f"The gateway answered no JSON: {self.text()[:200]}") from error

    def text(self) -> str:
        """The body as text, trimmed."""
        return self.body.decode(errors="replace").strip()


class Gateway:
    """One gateway and the login for it."""

    def __init__(self, url: str, authorization: str = "") -> None:
        parts = urlsplit(url)
        try:
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise SlicewiseError("bad_request", f"gateway: {url} is no URL.") from error
        if not self._host or parts.scheme not in ("http", "https"):
            raise SlicewiseError("bad_request", f"gateway: {url} is no URL.")
        self.url = url
        self._secure = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._authorization = authorization

    def system(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: tuple[int, ...] = (),
        timeout_s: float = MANAGEMENT_TIMEOUT_S,
    ) -> Answer:
        """A management call; raises SlicewiseError for any status of 400 and above not in `accept`."""
        headers = {"Authorization": self._authorization} if self._authorization else {}
        data = b""
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        with self.stream(method, path, query, headers, data, timeout_s) as response:
            answer = Answer(response.status, dict(response.getheaders()), self._read(response))
        if answer.status >= 400 and answer.status not in accept:
            raise self._refusal(answer)
        return answer

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = INVOKE_TIMEOUT_S,
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer whose body is still to be read; raises SlicewiseError when nobody answers."""
        connection: http.client.HTTPConnection
        if self._secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        target = self._prefix + path + (f"?{urlencode(query)}" if query else "")
        try:
            try:
                connection.request(method, target, body=body, headers=dict(headers or {}))
                response = connection.getresponse()
            except TimeoutError as error:
                raise SlicewiseError("unavailable", f"{self.url} did not answer within {timeout_s:g} s.") from error
            except (OSError, http.client.HTTPException) as error:
                raise SlicewiseError(
                    "unavailable", f"{self.url} cannot be reached ({error}); `slicewise status` shows what runs."
                ) from error
            except ValueError as error:
                raise SlicewiseError("bad_request", f"The request cannot be sent: {error}.") from error
            yield response
        finally:
            connection.close()

    def authorized(self) -> dict[str, str]:
        """Headers for `stream` on management paths."""
        return {"Authorization": self._authorization} if self._authorization else {}

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise SlicewiseError("unavailable", f"The answer of {self.url} broke off ({error}).") from error

    def _refusal(self, answer: Answer) -> SlicewiseError:
        if answer.status == 401:
            return SlicewiseError("unauthorised", f"{self.url} does not accept the login; use `slicewise login`.")
        text = answer.text() or http.client.responses.get(answer.status, "no reason given")
        code = "not_found" if answer.status == 404 else "bad_request" if answer.status < 500 else "unavailable"
        return SlicewiseError(code, f"{text} ({answer.status})")
