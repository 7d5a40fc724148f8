"""`slicewise trace`: a scenario from traffic that was, recorded here or published elsewhere, or that is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from proto.types.errors import SlicewiseError
from proto.wire import fields
from proto.wire.documents import read_document, scalar
from proto.wire.fields import bad
from simulator.scenario import scenario
from simulator.tracing import making, mapping, sources
from simulator.tracing.azure_llm import Tokens
from simulator.tracing.scenario_text import text
from simulator.tracing.shaping import Window
from slicewise.commands.options import DURATION

_S = 10**9
# Flags that only one of the two sources knows.
_FOR_FILES = ("kind", "from_ns", "to_ns", "rate_scale", "per_minute", "context_weight", "tokens_per_item")
_FOR_DRAWING = ("rate", "duration_ns", "requests", "zipf", "bursts")
# What an error of the generator calls a flag here.
_FLAGS = {
    "rate_rps": "--rate",
    "duration_s": "--duration",
    "requests": "--requests",
    "models": "--zipf",
    "batches": "--batches",
    "sla_s": "--sla",
    "bursts": "--bursts",
}


@click.command("trace")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--models",
    "-m",
    type=click.Path(path_type=Path),
    required=True,
    metavar="MODELS",
    help="A scenario, or a file with `models` as in one: their sizes and times become the functions'.",
)
@click.option("--slices", metavar="SPEC", help="As 4x1g:5GB,2x3g:20GB; else the slices in MODELS.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Where the scenario goes; else stdout.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all that is drawn.")
@click.option(
    "--functions",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N called most; with --generate, how many there are.",
)
@click.option(
    "--map",
    "rule",
    type=click.Choice(mapping.RULES),
    help="Which profile of MODELS a function has: one after the other by popularity, the same by first call "
    "(round-robin), or by name. Else name for recorded files, popularity for others.",
)
@click.option(
    "--batches", metavar="SPEC", help="Of calls that do not tell: 4, 1:0.7,8:0.3 or lognormal:MEDIAN:SIGMA:MAX. Else 1."
)
@click.option("--sla", "sla_ns", type=DURATION, metavar="TIME", help="Of calls that do not tell, as 500ms. Else none.")
@click.option("--kind", type=click.Choice(sources.KINDS), help="What FILE is; else its first line says.")
@click.option("--from", "from_ns", type=DURATION, metavar="TIME", help="Since FILE begins, as 90s or 2h30m.")
@click.option("--to", "to_ns", type=DURATION, metavar="TIME", help="Since FILE begins; else its end.")
@click.option("--per-minute", type=click.IntRange(min=1), metavar="N", help="N calls every minute, by its own mix.")
@click.option("--rate-scale", type=float, metavar="X", help="The same calls in 1/X of the time.")
@click.option(
    "--context-weight", type=float, metavar="W", help="LLM traces: cost of a token read, in tokens written. Else 0.01."
)
@click.option(
    "--tokens-per-item",
    type=float,
    metavar="T",
    help="LLM traces: how many tokens written make an item of a batch. Else 1.",
)
@click.option("--generate", type=click.Choice(["poisson"]), help="Draw requests instead of reading FILE.")
@click.option("--rate", type=float, metavar="RPS", help="With --generate: mean requests a second.")
@click.option("--duration", "duration_ns", type=DURATION, metavar="TIME", help="With --generate: how long.")
@click.option("--requests", type=click.IntRange(min=0), metavar="N", help="With --generate: how many, not how long.")
@click.option(
    "--zipf", type=float, metavar="S", help="With --generate: the n-th function has weight n^-S; else all are equal."
)
@click.option(
    "--bursts",
    metavar="ON:OFF[:QUIET]",
    help="With --generate: mean times on and off, as 2s:8s; the rate off as a share of that on, else 0.",
)
def trace_command(file: Path | None, models: Path, output: Path | None, generate: str | None, **given: Any) -> None:
    """Make a scenario for `slicewise simulate` of a trace.

    FILE is what the gateway recorded (its setting record_arrivals; older parts are read along), an Azure Functions
    invocation table or an Azure LLM trace. Every function becomes a model with a profile of MODELS. The same input and
    --seed make the same scenario.
    """  # fmt: skip
    if (file is None) == (generate is None):
        raise click.UsageError("FILE: give it, or else --generate; one of the two.")
    for key in _FOR_FILES if file is None else _FOR_DRAWING:
        if given[key] is not None:
            flag = "--" + key.removesuffix("_ns").replace("_", "-")
            raise bad(flag, "is not for --generate" if file is None else "is for --generate only")
    slices = None if given["slices"] is None else _slices(given["slices"])
    batches = {"1": 1} if given["batches"] is None else _batches(given["batches"])
    sla_s = None if given["sla_ns"] is None else given["sla_ns"] / _S
    frame = making.frame(read_document(models), slices, given["seed"], batches, sla_s)
    cut = 0
    if file is None:
        document = _draw(frame, given)
    else:
        document, cut = making.of_file(file, given["kind"], _wanted(given), _pace(given), given["rule"], frame)
    checked = scenario(document)
    _write(text(document), output)
    span_s = (max(r.at_ns for r in checked.requests) / _S) if checked.requests else 0.0
    lost = f"; {cut} lines were cut by a crash and left out" if cut else ""
    click.echo(
        f"{len(checked.requests)} requests for {len(checked.models)} models in {span_s:.6g} s{lost}", err=True
    )  # fmt: skip


def _draw(frame: making.Frame, given: dict[str, Any]) -> dict[str, Any]:
    if given["rate"] is None:
        raise bad("--rate", "is missing; give the requests a second")
    generator: dict[str, Any] = {"rate_rps": given["rate"]}
    if given["duration_ns"] is not None:
        generator["duration_s"] = given["duration_ns"] / _S
    if given["requests"] is not None:
        generator["requests"] = given["requests"]
    if given["zipf"] is not None:
        generator["models"] = {"zipf": given["zipf"]}
    if given["bursts"] is not None:
        generator["bursts"] = _bursts(given["bursts"])
    try:
        return making.drawn(generator, given["functions"], given["rule"], frame)
    except SlicewiseError as error:
        field, colon, rest = error.message.partition(":")
        key, dot, below = field.removeprefix(f"{making.FIELD}.").partition(".")
        if not field.startswith(making.FIELD) or key not in _FLAGS:
            raise
        raise SlicewiseError(error.code, f"{_FLAGS[key]}{dot}{below}{colon}{rest}") from error


def _wanted(given: dict[str, Any]) -> sources.Wanted:
    tokens = Tokens()
    weight, size = given["context_weight"], given["tokens_per_item"]
    return sources.Wanted(
        Window(given["from_ns"] or 0, given["to_ns"]),
        given["functions"],
        Tokens(
            tokens.context_weight if weight is None else fields.number(weight, "--context-weight", least=0, most=1e6),
            tokens.tokens_per_item if size is None else fields.number(size, "--tokens-per-item", least=1e-6),
        ),
    )


def _pace(given: dict[str, Any]) -> making.Pace:
    scale = given["rate_scale"]
    return making.Pace(
        given["per_minute"], 1.0 if scale is None else fields.number(scale, "--rate-scale", least=1e-6, most=1e6)
    )


def _slices(spec: str) -> list[dict[str, Any]]:
    from gpu_manager.service.devices.cpu import parse

    try:
        sizes = [size for part in spec.split(",") for size in parse(part)]  # a scenario may have many nodes' slices
    except SlicewiseError as error:
        raise SlicewiseError(error.code, f"--{error.message}") from error
    return [{"id": f"g{place}", "gpcs": gpcs, "memory_gb": size / 1e9} for place, (gpcs, size) in enumerate(sizes)]


def _batches(spec: str) -> dict[str, Any]:
    """As a scenario has it; what the values must be is checked there."""
    first, *rest = spec.split(":")
    if first == "lognormal":
        if len(rest) != 3:
            raise bad("--batches", f"{spec!r} must be lognormal:MEDIAN:SIGMA:MAX, as lognormal:4:0.9:32")
        return {"lognormal": dict(zip(("median", "sigma", "max"), map(scalar, rest), strict=True))}
    pairs = [part.partition(":")[::2] for part in spec.split(",")]
    found = {size.strip(): scalar(weight.strip()) if weight else 1 for size, weight in pairs}
    if len(found) < len(pairs):
        raise bad("--batches", f"{spec!r} has a size twice; keep one of them")
    return found


def _bursts(spec: str) -> dict[str, Any]:
    parts = spec.split(":")
    if len(parts) not in (2, 3):
        raise bad("--bursts", f"{spec!r} must be ON:OFF or ON:OFF:QUIET, as 2s:8s or 2s:8s:0.1")
    on_ns, off_ns = (DURATION.convert(part, None, None) for part in parts[:2])
    found: dict[str, Any] = {"on_s": on_ns / _S, "off_s": off_ns / _S}
    return found | ({"quiet": scalar(parts[2])} if len(parts) == 3 else {})


def _write(content: str, output: Path | None) -> None:
    if output is None:
        click.echo(content, nl=False)
        return
    try:
        output.write_text(content, encoding="utf-8")
    except OSError as error:
        raise bad("--output", f"{output} cannot be written ({error})") from error
