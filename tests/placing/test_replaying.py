"""A recording handed to a fresh core gives the same instructions, and one that was changed does not."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from proto.types.errors import SlicewiseError
from proto.types.models import Profile
from scheduler.core import events as ev
from scheduler.core.instructions import Bind, Instruction
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import LIVE
from scheduler.service.recording import RecordedProfiles, Recorder
from scheduler.service.replaying import replay
from tests.placing.live import MB, MS, Platform, S, key

WORKERS = "abcdefgh"


class Recorded(Platform):
    """A platform whose core is recorded from its first event on; it stands for another epoch each."""

    def __init__(self, path: Path, limit: int = 10**9) -> None:
        self.recorder: Recorder | None = None
        super().__init__(3, 50 * MB, replace(LIVE, queue_limit=40))
        self.profiles = RecordedProfiles()
        self.core.__init__(  # type: ignore[misc]
            self.core.policy, self.profiles, self.core.tuning, make_id=self._next, learn=self.profiles
        )
        self._made = 0
        self.recorder = self.profiles.recorder = Recorder(path, limit, 3, self.core.policy, self.core.tuning)
        for worker in WORKERS:
            profile = Profile(key(worker), 20 * MB, 50 * MS, 0, 0, 1.0, 1, {(1, 0): 5 * MS}, {(1, 0): 5 * MS})
            self.profiles.restore(profile)
        self.join()

    def _next(self) -> str:
        self._made += 1
        return f"3-{self._made}"

    def do(self, event: ev.Event) -> list[Instruction]:
        if self.recorder is None:
            return super().do(event)
        self.recorder.event(event)
        try:
            said = super().do(event)
        except ValueError as error:
            self.recorder.raised(error)
            return []
        self.recorder.said(said)
        return said


def lived(path: Path, seed: int, limit: int = 10**9) -> Recorded:
    """A few seconds of calls that come, turn, fail and are cancelled, nodes that leave, policies that change."""
    p, draw = Recorded(path, limit), random.Random(seed)
    bound: dict[str, Bind] = {}
    for number in range(600):
        said = p.wait(draw.choice([0, 1, 3 * MS, 20 * MS, 200 * MS]))
        what = draw.random()
        if what < 0.5:
            said += p.place(str(number), draw.choice(WORKERS), late=draw.random() < 0.5, deadline_ns=2 * S, batch=3)
        elif what < 0.9 and bound:
            bind = bound.pop(draw.choice(list(bound)))
            if not bind.hit and draw.random() < 0.9:
                said += p.do(ev.Loaded(p.now, bind.slice, bind.request.worker, 40 * MS, 20 * MB, "", ("x.ns@1",)))
            said += p.turn(bind)
            p.profiles.learn_invocation(bind.request.worker, draw.randrange(5 * MS), 0, 1)
            said += p.wait(draw.choice([1 * MS, 7 * MS])) + p.done(bind)
            said += p.do(ev.Released(p.now, "gateway", bind.binding_id))
        elif what < 0.92:
            said += p.do(ev.PolicySet(p.now, make_policy({"name": draw.choice(["lb", "lalb", "elsa"])})))
        elif what < 0.93:
            said += p.do(ev.NodeLost(p.now, "n")) + p.join()
        elif what < 0.94:
            pool = draw.choice(["shared", "reserved:a.ns"])
            said += p.do(ev.PoolsSet(p.now, {"s2": pool})) + p.do(ev.FunctionReserves(p.now, "b.ns", draw.choice("01")))
        elif what < 0.96:
            said += p.do(ev.Cancelled(p.now, "gateway", str(number - 3)))
        else:
            p.profiles.learn_held(key("a"), draw.randrange(15, 25) * MB)
            said += p.do(ev.ProfileChanged(p.now, key("a")))
        bound |= {one.binding_id: one for one in said if isinstance(one, Bind)}
    p.do(ev.Tick(p.now - 1))  # time runs backward: it cannot be handled, and is no less the same
    p.do(ev.Tick(p.now))
    assert p.recorder is not None
    p.recorder.close()
    return p


@pytest.mark.parametrize("seed", range(4))
def test_the_same_events_give_the_same_instructions(tmp_path: Path, seed: int) -> None:
    p = lived(tmp_path / "events", seed)
    text = (tmp_path / "events").read_text()
    assert all(f'"{part}"' in text for part in ("PoolsSet", "PolicySet", "TellOwner", "learned", "ValueError"))
    done = replay(text.splitlines(keepends=True))
    assert done.difference is None
    assert done.events > 600
    assert done.instructions > p.core.records.hits + p.core.records.misses > 100


def test_another_process_with_other_hashes_says_the_same(tmp_path: Path) -> None:
    lived(tmp_path / "events", 9)
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "scheduler.service.replaying", str(tmp_path / "events")],
            env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "events gave the same" in done.stdout


def test_a_decision_that_would_be_another_is_found_at_its_event(tmp_path: Path) -> None:
    lived(tmp_path / "events", 1)
    lines = (tmp_path / "events").read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if "load on idle s1" in line)
    other = lines[number].replace("load on idle s1", "load on idle s2")
    found = replay([*lines[:number], other, *lines[number + 1 :]]).difference
    assert found is not None
    assert found.line == number  # the event stands on the line before its answer, and lines count from 1
    assert found.recorded != found.replayed
    # Without one of the arrivals, too.
    at = next(n for n, line in enumerate(lines) if '"Placed"' in line)
    assert replay(lines[:at] + lines[at + 1 :]).difference is not None


def test_a_full_recording_ends_with_a_whole_event_and_a_cut_one_is_read_up_to_there(tmp_path: Path) -> None:
    lived(tmp_path / "events", 2, limit=50_000)
    text = (tmp_path / "events").read_text()
    assert 50_000 < len(text) < 60_000
    whole = replay(text.splitlines(keepends=True))
    assert whole.difference is None
    assert 50 < whole.events < 600
    cut = replay(text[:-20].splitlines(keepends=True))
    assert cut.events <= whole.events


def test_the_recording_of_the_last_start_is_kept(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        Recorder(tmp_path / "deep" / "events", 10**6, epoch, make_policy({"name": "lb"}), LIVE).close()
    assert json.loads((tmp_path / "deep" / "events").read_text())["epoch"] == 3
    assert json.loads((tmp_path / "deep" / "events.1").read_text())["epoch"] == 2
    assert len(list((tmp_path / "deep").iterdir())) == 2


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    for text in ("", "x\n", "[]\n", '{"slicewise_events": 2}\n'):
        with pytest.raises(SlicewiseError, match="header"):
            replay(text.splitlines(keepends=True))
    (tmp_path / "mine").write_text("a letter\n")
    for taken in (tmp_path / "mine", tmp_path):
        with pytest.raises(SlicewiseError, match="record_events"):
            Recorder(taken, 10**6, 1, make_policy({"name": "lb"}), LIVE)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
