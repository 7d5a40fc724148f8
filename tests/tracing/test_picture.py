"""`slicewise simulate --plot`: the picture has what happened in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.engine import simulate
from simulator.scenario import policy_of, scenario
from tests.simulating.scenarios import small
from tests.tracing.commands import Commands

plotting = pytest.importorskip("slicewise.planning.run_plotting")

# One slice that holds two of three models at a time.
DOC = small(
    [(1, 2.0)],
    {"a": (1.0, 1.0, 1.0), "b": (1.0, 1.0, 1.0), "c": (1.0, 1.0, 1.0)},
    (0, "a"), (0.5, "b"), (1, "c"), (20, "c"),
)  # fmt: skip


def test_what_was_held_and_for_how_long() -> None:
    given = scenario(DOC)
    (stays,) = simulate(given, policy_of({"name": "lb"})).stays
    seconds = [(s.model, s.from_ns / 1e9, s.to_ns and s.to_ns / 1e9) for s in stays]
    assert seconds == [("a", 0, 4), ("b", 2, None), ("c", 4, None)]
    assert plotting._strips(stays) == ([0, 1, 0], 2)


def test_preloaded_models_stay() -> None:
    run = simulate(scenario(DOC | {"preloaded": True}), policy_of({"name": "lb"}))
    assert {(s.model, s.from_ns, s.to_ns) for s in run.stays[0]} == {(m, 0, None) for m in "abc"}


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_of_several_policies(commands: Commands, ending: str) -> None:
    file, out = commands.file("s.json", json.dumps(DOC)), commands.folder / f"picture.{ending}"
    status, said, _ = commands("simulate", file, "--policy", "lb", "--policy", "lalb", "--plot", out, "--json")
    assert status == 0
    assert len(json.loads(said)) == 2
    assert out.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    if ending == "png":
        assert spots(out) > 10


def spots(picture: Path) -> int:
    """Colours of which there is more than a speck."""
    from collections import Counter

    from matplotlib.image import imread

    pixels = imread(picture)
    colours = Counter(map(tuple, (pixels[::2, ::2, :3] * 255).astype(int).reshape(-1, 3).tolist()))
    return sum(count > 30 for count in colours.values())


@pytest.mark.parametrize("change", [{"requests": []}, {"preloaded": True, "models": {
    m: {"memory_gb": 1, "load_s": 0, "infer_s": {"fixed": 0, "per_item": 0}} for m in "abc"}}])  # fmt: skip
def test_nothing_to_draw_is_drawn(commands: Commands, change: dict[str, object]) -> None:
    file, out = commands.file("s.json", json.dumps(DOC | change)), commands.folder / "picture.png"
    assert commands("simulate", file, "--plot", out)[0] == 0
    assert out.stat().st_size > 1000


def test_bad_names_are_named(commands: Commands) -> None:
    file = commands.file("s.json", json.dumps(DOC))
    for name in ("picture.txt", "no/such/folder/picture.png"):
        status, _, err = commands("simulate", file, "--plot", commands.folder / name)
        assert (status, err.count("\n")) == (2, 1)
        assert "--plot" in err
