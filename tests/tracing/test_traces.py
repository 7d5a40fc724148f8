"""`slicewise trace FILE`: every kind of file becomes the scenario that it tells of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.service.recording import ArrivalFile
from proto.types.arrivals import Arrival
from proto.wire.arrival_log import HEADER
from simulator.scenario import Scenario
from tests.tracing.commands import Commands

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published traces are not here")

S = 10**9
TABLE = """HashOwner,HashApp,HashFunction,Trigger,1,2,3
o,p,seldom,http,0,0,3
o,p,often,http,20,30,40
o,p,never,timer,0,0,0
o,p,often,queue,0,0,10
o,p,early,http,9,0,0
"""
LLM = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2024-05-10 00:00:00.009930+00:00,0,0
"""


def recorded(folder: Path, arrivals: list[Arrival], most_bytes: int = 1 << 20) -> Path:
    file = ArrivalFile(folder / "arrivals", most_bytes, 9)
    file.open()
    file.append(arrivals)
    file.close()
    return folder / "arrivals"


def asked(made: Scenario) -> list[tuple[float, str, int, float | None]]:
    return [(r.at_ns / S, r.model, r.batch, r.sla_ns and r.sla_ns / S) for r in made.requests]


ARRIVALS = [
    Arrival(1_700_000_000 * S + 7, "b.openfaas-fn", 4, S // 2),
    Arrival(1_700_000_003 * S + 7, "a.staging", 0, 0),
    Arrival(1_700_000_001 * S + 507, "b.openfaas-fn", 0, 0),
]


def test_a_recording_by_name(commands: Commands) -> None:
    path = recorded(commands.folder, ARRIVALS)
    made = commands.trace(path, "--batches", "7", "--sla", "2s")
    assert asked(made) == [
        (0, "b.openfaas-fn", 4, 0.5), (1.0000005, "b.openfaas-fn", 7, 2), (3, "a.staging", 7, 2),
    ]  # fmt: skip
    assert [m.memory_bytes for m in made.models.values()] == [1_100_000_000, 1_000_000_000]  # b's, a's
    assert [r.id for r in made.requests] == ["r1", "r2", "r3"]
    assert commands("simulate", commands.folder / "made.yaml", "--json")[0] == 0


def test_older_parts_are_read_along_and_cut_lines_told(commands: Commands) -> None:
    many = [Arrival(S * n, "a.b", n + 1, 0) for n in range(200)]
    path = recorded(commands.folder, many, len(HEADER) + 1000)
    with path.open("ab") as file:
        file.write(b"[12")
    assert len(list(commands.folder.glob("arrivals*"))) > 3
    assert [r.batch for r in commands.trace(path).requests] == list(range(1, 201))
    assert "1 lines were cut" in commands("trace", path, "--models", commands.models)[2]


def test_a_recording_by_other_rules(commands: Commands) -> None:
    calls = [Arrival(n * S, f"f{function}.x", 1, 0) for n, function in enumerate([1, 2, 3, 2, 4, 2, 4, 4, 2])]
    path = recorded(commands.folder, calls)
    names = {1: "a", 2: "b", 3: "c", 4: "a-2"}
    assert [r.model for r in commands.trace(path, "--map", "round-robin").requests] == [
        names[n] for n in (1, 2, 3, 2, 4, 2, 4, 4, 2)
    ]
    names = {2: "a", 4: "b", 1: "c", 3: "a-2"}
    assert [r.model for r in commands.trace(path, "--map", "popularity").requests] == [
        names[n] for n in (1, 2, 3, 2, 4, 2, 4, 4, 2)
    ]
    assert [r.model for r in commands.trace(path, "--map", "popularity", "--functions", 2).requests] == list("aababba")
    assert "models.f2.x: is missing" in commands.refused(path)


def test_a_window_and_another_pace(commands: Commands) -> None:
    path = recorded(commands.folder, [Arrival(5 * S + n * S, "a.x", n + 1, 0) for n in range(20)])
    made = commands.trace(path, "--from", "4s", "--to", "6500ms", "--rate-scale", "2")
    assert [(r.at_ns / S, r.batch) for r in made.requests] == [(0, 5), (0.5, 6), (1, 7)]
    assert "--from" in commands.refused(path, "--from", "1h")
    assert "--to" in commands.refused(path, "--from", "4s", "--to", "4s")


def test_an_invocation_table(commands: Commands) -> None:
    path = commands.file("table.csv", TABLE)
    made = commands.trace(path)
    calls = Counter((r.model, r.at_ns // (60 * S)) for r in made.requests)
    assert calls == {("a", 0): 20, ("a", 1): 30, ("a", 2): 50, ("b", 0): 9, ("c", 2): 3}
    assert len({r.at_ns for r in made.requests}) > 100  # within their minute anywhere
    assert list(made.requests) == sorted(made.requests, key=lambda r: r.at_ns)
    later = commands.trace(path, "--from", "60s", "--to", "3m")
    assert Counter((r.model, r.at_ns // (60 * S)) for r in later.requests) == {("a", 0): 30, ("a", 1): 50, ("b", 1): 3}
    half = commands.trace(path, "--from", "30s", "--to", "1m")
    assert 2 <= sum(r.model == "a" for r in half.requests) <= 18
    assert {r.model for r in commands.trace(path, "--functions", "1").requests} == {"a"}


def test_so_many_a_minute(commands: Commands) -> None:
    path = commands.file("table.csv", TABLE)
    for wanted in (10, 400):
        made = commands.trace(path, "--per-minute", wanted)
        assert Counter(r.at_ns // (60 * S) for r in made.requests) == {0: wanted, 1: wanted, 2: wanted}
        shares = Counter(r.model for r in made.requests if r.at_ns < 60 * S)
        assert shares["a"] == pytest.approx(wanted * 20 / 29, rel=0.5 if wanted == 10 else 0.1)
    made = commands.trace(path, "--per-minute", 60, "--to", "90s")
    assert Counter(r.at_ns // (60 * S) for r in made.requests) == {0: 60, 1: 30}


def test_tokens_become_a_batch(commands: Commands) -> None:
    path = commands.file("llm.csv", LLM)
    made = commands.trace(path)
    assert [r.batch for r in made.requests] == [59, 40, 1]  # 10 + 48.08, 8 + 31.8, at least 1
    assert made.requests[1].at_ns == 52_000_000
    assert made.requests[2].at_ns == 15_140_576_029_970_000  # 175 days, 5 hours ... later
    assert [r.batch for r in commands.trace(path, "--context-weight", 0).requests] == [10, 8, 1]
    assert [r.batch for r in commands.trace(path, "--context-weight", 1, "--tokens-per-item", 100).requests] == [
        49, 32, 1,
    ]  # fmt: skip


def test_batches_are_drawn_by_the_seed(commands: Commands) -> None:
    path = commands.file("table.csv", TABLE)
    made = commands.trace(path, "--batches", "2:3,8:1", "--seed", 3)
    assert Counter(r.batch for r in made.requests)[2] == pytest.approx(84, abs=20)
    first = (commands.folder / "made.yaml").read_bytes()
    commands.trace(path, "--batches", "2:3,8:1", "--seed", 3)
    assert (commands.folder / "made.yaml").read_bytes() == first
    commands.trace(path, "--batches", "2:3,8:1", "--seed", 4)
    assert (commands.folder / "made.yaml").read_bytes() != first


def test_slices_of_ones_own_and_the_rest_of_a_scenario(commands: Commands) -> None:
    path = commands.file("llm.csv", LLM)
    made = commands.trace(path, "--slices", "2x1g:5GB,7g:40GB")
    assert [(g.id, g.gpcs, g.memory_bytes) for g in made.slices] == [
        ("g0", 1, 5 * S), ("g1", 1, 5 * S), ("g2", 7, 40 * S),
    ]  # fmt: skip
    assert len(commands.trace(path, "--slices", "60x1g:5GB,40x7g:80GB").slices) == 100
    text = commands.models.read_text()
    commands.models.write_text(text[:-1] + ', "noise_sigma": 0.5, "policy": {"name": "lb"}, "requests": []}')
    made = commands.trace(path)
    assert (made.noise_sigma, made.policy) == (0.5, {"name": "lb"})


@pytest.mark.parametrize(
    ("name", "content", "flags", "field"),
    [
        ("t.csv", TABLE.replace("30", "x"), [], "t.csv:3.2"), ("t.csv", TABLE + "a,b\n", [], "t.csv:7"),
        ("t.csv", "HashFunction,Count\n", [], "t.csv:1"), ("t.csv", "a,b\n1,2\n", [], "t.csv:1"),
        ("t.csv", TABLE.replace("20", "999999999"), [], "--to"), ("t.csv", b"HashFunction,1\n\xff,1\n", [], "FILE"),
        ("t.csv", TABLE, ["--map", "name"], "models.often/p/o"), ("t.csv", TABLE, ["--kind", "recorded"], "t.csv:1"),
        ("l.csv", LLM.replace("4808", "-1"), [], "l.csv:2.ContextTokens"),
        ("l.csv", LLM.replace("2023-11-16 18", "2023-13-16 18"), [], "l.csv:2.TIMESTAMP"),
        ("l.csv", "TIMESTAMP,ContextTokens\n", [], "GeneratedTokens"),
        ("l.csv", LLM, ["--rate-scale", "nan"], "--rate-scale"), ("l.csv", LLM, ["--rate-scale", "0"], "--rate-scale"),
        ("l.csv", LLM, ["--from", "soon"], "--from"), ("l.csv", LLM, ["--per-minute", "0"], "--per-minute"),
        ("l.csv", LLM, ["--tokens-per-item", "0"], "--tokens-per-item"), ("l.csv", LLM, ["--zipf", "1"], "--zipf"),
        ("l.csv", LLM, ["--slices", "much"], "--slices"), ("l.csv", LLM, ["--slices", "1g:1MB"], "models.a.memory_gb"),
        ("l.csv", LLM, ["--batches", "1:x"], "--batches.1"), ("l.csv", LLM, ["--batches", "1:1,1:2"], "--batches"),
        ("l.csv", LLM, ["--batches", "lognormal:4"], "--batches"),
        ("l.csv", LLM, ["-o", "/no/such/folder/x"], "--output"),
        ("l.csv", LLM, ["--generate", "poisson"], "FILE"),
    ],
)  # fmt: skip
def test_bad_input_is_named(
    commands: Commands, name: str, content: str | bytes, flags: list[Any], field: str
) -> None:  # fmt: skip
    assert field in commands.refused(commands.file(name, content), *flags)


def test_bad_files_of_models_are_named(commands: Commands) -> None:
    path = commands.file("llm.csv", LLM)
    for content, field in (("[]", "models"), ("models: {}", "--slices"), ("models: {}\nslices: []", "models")):
        commands.models.write_text(content)
        assert field in commands.refused(path)
    assert "FILE" in commands.refused(commands.folder / "none")


@needs_data
def test_the_published_invocation_table(commands: Commands) -> None:
    path = DATA / "azure_functions" / "invitro_200_inv.csv"
    made = commands.trace(path, "--from", "0s", "--to", "6m", "--functions", 35, "--per-minute", 325)
    assert len(made.requests) == 6 * 325
    calls = Counter(r.model for r in made.requests)
    assert 15 <= len(calls) <= len(made.models) <= 35
    assert calls["a"] == max(calls.values())
    whole = commands.trace(path, "--to", "10m")
    assert len(whole.requests) == 14374  # the sum of its first ten columns


@needs_data
def test_the_published_llm_trace(commands: Commands) -> None:
    made = commands.trace(DATA / "azure_llm" / "AzureLLMInferenceTrace_code.csv", "--context-weight", 0)
    assert len(made.requests) == 8819
    assert [r.batch for r in made.requests[:3]] == [10, 8, 27]
    assert list(made.models) == ["a"]
