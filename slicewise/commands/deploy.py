"""`slicewise deploy`: PUT, and POST for a function that is not there yet, as faas-cli does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from proto.types.errors import SlicewiseError
from slicewise.client.http import Gateway
from slicewise.commands.functions import WHY
from slicewise.commands.options import connect, gateway_option, in_namespace, namespace_option, pairs, stack_file

_POLL_S = 0.2


@click.command("deploy")
@click.option("--yaml", "-f", "file", type=click.Path(path_type=Path), help="Stack file; else stack.yml here.")
@click.option("--filter", "pattern", default="*", help="Only functions of the file whose name matches.")
@click.option("--image", help="Deploy this image instead of a stack file.")
@click.option("--name", help="Name of the function; with --image.")
@click.option("--label", "-l", "labels", multiple=True, metavar="KEY=VALUE")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE")
@click.option("--env", "-e", "variables", multiple=True, metavar="KEY=VALUE", help="Wins over the stack file.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME")
@click.option("--constraint", "constraints", multiple=True, metavar="KEY=VALUE")
@click.option("--limit", "limits", multiple=True, metavar="KEY=VALUE", help="memory, cpu or nvidia.com/gpu.")
@click.option("--fprocess", default="", help="Command of the function's own server.")
@click.option("--readonly", is_flag=True, help="Read-only root filesystem.")
@click.option("--envsubst/--no-envsubst", default=True, help="Substitute ${VARIABLES} in the stack file.")
@click.option(
    "--wait", "wait_s", type=float, default=0.0, metavar="SECONDS", help="Wait until the functions are ready."
)
@namespace_option
@gateway_option
def deploy_command(
    file: Path | None,
    pattern: str,
    image: str | None,
    name: str | None,
    labels: tuple[str, ...],
    annotations: tuple[str, ...],
    variables: tuple[str, ...],
    secrets: tuple[str, ...],
    constraints: tuple[str, ...],
    limits: tuple[str, ...],
    fprocess: str,
    readonly: bool,
    envsubst: bool,
    wait_s: float,
    namespace: str,
    gateway: str | None,
) -> None:
    """Deploy the functions of a stack file, or one image."""
    environment = pairs("--env", variables)
    stack = None
    if image:
        if not name:
            raise SlicewiseError("bad_request", "--name: is required with --image.")
        requests: list[dict[str, Any]] = [{"service": name, "image": image, "envVars": environment}]
    else:
        stack = stack_file(file)
        if stack is None:
            raise SlicewiseError("bad_request", "--yaml: there is no stack.yml here; give one, or --image and --name.")
        from slicewise.client.stack import deployments

        requests = deployments(stack, pattern, environment, envsubst)
    target = connect(gateway, stack)
    for request in requests:
        _add(request, "labels", pairs("--label", labels))
        _add(request, "annotations", pairs("--annotation", annotations))
        _add(request, "limits", pairs("--limit", limits))
        for key, values in (("secrets", secrets), ("constraints", constraints)):
            if values:
                request[key] = [*request.get(key, []), *values]
        if fprocess:
            request["envProcess"] = fprocess
        if readonly:
            request["readOnlyRootFilesystem"] = True
        if namespace:
            request["namespace"] = namespace
        _deploy(target, request)
    if wait_s > 0:
        _wait(target, requests, wait_s)


def _add(request: dict[str, Any], key: str, values: dict[str, str]) -> None:
    if values:
        request[key] = {**request.get(key, {}), **values}


def _deploy(gateway: Gateway, request: dict[str, Any]) -> None:
    answer = gateway.system("PUT", "/system/functions", body=request, accept=(404,))
    if answer.status == 404:
        gateway.system("POST", "/system/functions", body=request)
    suffix = f".{request['namespace']}" if request.get("namespace") else ""
    click.echo(f"Deployed {request['service']}: {gateway.url}/function/{request['service']}{suffix}")


def _wait(gateway: Gateway, requests: list[dict[str, Any]], wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    for request in requests:
        query = in_namespace(request.get("namespace", ""))
        while True:
            status = gateway.system("GET", f"/system/function/{request['service']}", query).json()
            why = (status.get("annotations") or {}).get(WHY, "")
            if status.get("availableReplicas", 0) > 0 and not why:
                break
            if time.monotonic() > deadline:
                text = f"{request['service']} is not ready after {wait_s:g} s; `slicewise describe` shows why."
                raise SlicewiseError("unavailable", f"{text} {why}".rstrip())
            time.sleep(_POLL_S)
