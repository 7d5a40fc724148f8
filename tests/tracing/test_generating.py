"""`slicewise trace --generate`: what is drawn is what a scenario would draw itself, written out."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from simulator.scenario import scenario
from tests.tracing.commands import MODELS, Commands

DRAW = ("--generate", "poisson", "--rate", "10", "--seed", "5")


def test_it_is_what_the_scenario_would_draw(commands: Commands) -> None:
    flags = (
        "--duration",
        "60",
        "--zipf",
        "1.1",
        "--batches",
        "lognormal:4:0.9:32",
        "--sla",
        "500ms",
        "--bursts",
        "2s:8s:0.1",
    )
    made = commands.trace(*DRAW, *flags)
    generator = {
        "rate_rps": 10, "duration_s": 60, "models": {"zipf": 1.1}, "sla_s": 0.5, "seed": 5,
        "batches": {"lognormal": {"median": 4, "sigma": 0.9, "max": 32}},
        "bursts": {"on_s": 2, "off_s": 8, "quiet": 0.1},
    }  # fmt: skip
    assert made.requests == scenario(MODELS | {"requests": {"trace": generator}}).requests
    first = (commands.folder / "made.yaml").read_bytes()
    commands.trace(*DRAW, *flags)
    assert (commands.folder / "made.yaml").read_bytes() == first
    status, out, _ = commands("trace", *DRAW, *flags, "--models", commands.models)
    assert (status, out.encode()) == (0, first)
    assert json.loads(out)["seed"] == 5


def test_more_functions_than_profiles(commands: Commands) -> None:
    made = commands.trace(*DRAW, "--requests", 4000, "--functions", 5, "--zipf", 1)
    assert list(made.models) == ["a", "b", "c", "a-2", "b-2"]
    assert made.models["a-2"].memory_bytes == made.models["a"].memory_bytes
    calls = Counter(r.model for r in made.requests)
    weights = [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert [calls[name] / 4000 for name in made.models] == pytest.approx([w / sum(weights) for w in weights], abs=0.02)
    assert made.requests[-1].at_ns == pytest.approx(400e9, rel=0.1)


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ([], "FILE"), (["--generate", "poisson"], "--rate"), ([*DRAW], "--requests"),
        ([*DRAW, "--duration", "9", "--requests", "9"], "--requests"), ([*DRAW, "--duration", "-9"], "--duration"),
        (["--generate", "poisson", "--rate", "0", "--requests", "1"], "--rate"),
        ([*DRAW, "--requests", "9", "--zipf", "-1"], "--zipf.zipf"),
        ([*DRAW, "--requests", "9", "--from", "1s"], "--from"),
        ([*DRAW, "--requests", "9", "--batches", "lognormal:4:0:32"], "--batches.lognormal.sigma"),
        ([*DRAW, "--requests", "9", "--bursts", "2s"], "--bursts"),
        ([*DRAW, "--requests", "9", "--bursts", "2s:x"], "x"),
        ([*DRAW, "--requests", "9", "--bursts", "2s:8s:2"], "--bursts.quiet"),
        ([*DRAW, "--requests", "9", "--map", "name"], "--map"), (["--generate", "weibull"], "--generate"),
    ],
)  # fmt: skip
def test_bad_flags_are_named(commands: Commands, flags: list[str], field: str) -> None:
    assert field in commands.refused(*flags)
