"""What a faas-cli user expects of the commands, on a running platform."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.platform_rig import Platform

pytestmark = pytest.mark.live

HANDLER = """
import os

def handle(event, context):
    print("said:", event.body.decode())
    if event.body == b"raise":
        raise ValueError("not like this")
    with open("/var/openfaas/secrets/cli-token") as secret:
        value = secret.read()
    return {"statusCode": 200, "body": {
        "env": os.environ["GREETING"], "secret": value, "query": event.query.get("a"), "method": event.method,
        "header": event.headers.get("X-Mine"),
    }}
"""
STACK = """
version: 1.0
provider: {name: openfaas}
functions:
  cli-talk:
    lang: python3-http
    handler: ./cli-talk
    image: cli-talk
    environment: {GREETING: "${GREETING:-hello}"}
    secrets: [cli-token]
    labels: {tier: 1}
  cli-broken:
    image: cli-broken
"""


@pytest.fixture(scope="module")
def deployed(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("functions")
    for name, handler in (("cli-talk", HANDLER), ("cli-broken", "import nothing_of_that_name\n")):
        (folder / name).mkdir()
        (folder / name / "handler.py").write_text(handler)
        platform.cli("build", str(folder / name), "-t", name)
    (folder / "stack.yml").write_text(STACK)
    platform.cli("secret", "create", "cli-token", "--from-literal", " s3cret ")
    platform.cli("deploy", "-f", str(folder / "stack.yml"), "--filter", "cli-talk", "--wait", "60")
    platform.cli("deploy", "-f", str(folder / "stack.yml"), "--filter", "cli-broken")
    yield platform
    for name in ("cli-talk", "cli-broken"):
        platform.cli("remove", name)
    platform.cli("secret", "remove", "cli-token")


def test_a_call_brings_environment_secret_query_method_and_header(deployed: Platform) -> None:
    done = deployed.cli(
        "invoke", "cli-talk.openfaas-fn", "-m", "put", "--query", "a=b c", "-H", "X-Mine: yes", "-d", "hi"
    )
    assert json.loads(done.stdout) == {
        "env": "hello", "secret": "s3cret", "query": "b c", "method": "PUT", "header": "yes",
    }  # fmt: skip
    assert done.stderr == ""


def test_a_failing_call_is_one_line_and_status_one_and_the_log_tells_why(deployed: Platform) -> None:
    done = deployed.cli("invoke", "cli-talk", "-d", "raise", check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("slicewise: cli-talk answered 500")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    told = deployed.cli("logs", "cli-talk", "-o", "plain", "--tail", "50").stdout
    assert "said: raise" in told
    assert "ValueError: not like this" in told


def test_describe_tells_why_a_function_is_not_ready(deployed: Platform) -> None:
    deployed.wait(
        lambda: "nothing_of_that_name" in deployed.cli("describe", "cli-broken").stdout, "describe does not tell"
    )
    shown = deployed.cli("describe", "cli-broken").stdout
    assert "Not ready" in shown
    assert "tier: 1" in deployed.cli("describe", "cli-talk").stdout


def test_scale_and_list(deployed: Platform) -> None:
    deployed.cli("scale", "cli-talk", "0")
    listed = {item["name"]: item for item in json.loads(deployed.cli("list", "--json").stdout)}
    assert listed["cli-talk"].get("replicas", 0) == 0
    deployed.cli("scale", "cli-talk", "1")
    deployed.wait_ready("cli-talk")


def test_policy_alone_shows_the_policy(deployed: Platform) -> None:
    shown = deployed.cli("policy").stdout
    assert shown == deployed.cli("policy", "get").stdout == deployed.cli("policy", "-g", deployed.url).stdout
    assert json.loads(shown)["name"] == "lalb"
    nowhere = deployed.cli("policy", "-g", "http://127.0.0.1:9", "get", check=False)
    assert nowhere.returncode == 1
    assert "127.0.0.1:9" in nowhere.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("policy", "set", "none-of-that-name"), 2, "none-of-that-name"),
        (("policy", "set", "lalb", "--o3-limit", "-1"), 2, "o3-limit"),
        (("deploy", "--image", "no-such-image", "--name", "x"), 2, "no-such-image"),
        (("deploy", "--image", "cli-talk", "--name", "x", "-e", "exec_timeout=10sec"), 2, "exec_timeout"),
        (("deploy", "--image", "cli-talk", "--name", "Bad_Name"), 2, "service"),
        (("invoke", "nobody"), 1, "404"),
        (("describe", "nobody"), 1, "404"),
        (("remove", "nobody"), 1, "404"),
        (("scale", "nobody", "1"), 1, "404"),
        (("secret", "update", "nobody", "--from-literal", "x"), 1, "404"),
        (("secret", "create", "cli-token", "--from-literal", "x"), 2, "409"),
        (("login", "-p", "guess"), 1, "does not accept"),
    ],
)
def test_refusals_are_one_line_and_a_status(
    deployed: Platform, arguments: tuple[str, ...], status: int, words: str
) -> None:
    done = deployed.cli(*arguments, check=False)
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == status


def test_a_wrong_login_is_said_and_a_right_one_stored(deployed: Platform) -> None:
    login = deployed.state_dir / "login" / "config.yml"
    kept = login.read_text()
    login.unlink()
    done = deployed.cli("list", check=False)
    assert done.returncode == 1
    assert "slicewise login" in done.stderr
    deployed.cli("login", "--password-stdin", stdin=deployed.auth[1].encode())
    assert login.read_text() == kept
    deployed.cli("list")
