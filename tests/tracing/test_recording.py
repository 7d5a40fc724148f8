"""The file of arrivals: what is written can be read, whatever happens in between."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from gateway.service import recording
from gateway.service.recording import ArrivalFile, Recorder
from proto.types.arrivals import Arrival
from proto.types.errors import SlicewiseError
from proto.wire.arrival_log import HEADER, line, read_arrivals, rotated

SOME = [Arrival(10**18 + n, "bert.openfaas-fn", n % 5, 500_000_000 * (n % 2)) for n in range(100)]


def write(path: Path, arrivals: list[Arrival], most_bytes: int = 1 << 20, files: int = 3) -> None:
    file = ArrivalFile(path, most_bytes, files)
    file.open()
    assert file.append(arrivals) == len(arrivals)
    file.close()


def test_what_is_written_can_be_read_and_only_its_owner_may(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "arrivals"
    write(path, SOME[:60])
    write(path, SOME[60:])
    assert read_arrivals(path) == (SOME, 0)
    assert path.read_bytes().count(HEADER) == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_full_files_move_on_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "arrivals"
    room = len(HEADER) + 30 * max(len(line(a)) for a in SOME)
    write(path, SOME, room)
    files = rotated(path)
    assert [file.name for file in files] == ["arrivals.2", "arrivals.1", "arrivals"]
    assert all(file.stat().st_size <= room for file in files)
    kept = [arrival for file in files for arrival in read_arrivals(file)[0]]
    assert kept == SOME[-len(kept) :]
    assert 60 < len(kept) < 100
    write(path, SOME[:50], room, files=3)
    assert len(rotated(path)) == 3


def test_one_file_only(tmp_path: Path) -> None:
    path = tmp_path / "arrivals"
    write(path, SOME, 4096, files=1)
    assert rotated(path) == [path]
    kept, cut = read_arrivals(path)
    assert cut == 0
    assert kept == SOME[-len(kept) :]


@pytest.mark.parametrize("left", [*range(1, 40, 3), len(line(SOME[0])) - 2])
def test_a_crash_in_the_middle_of_a_line(tmp_path: Path, left: int) -> None:
    path = tmp_path / "arrivals"
    write(path, SOME[:10])
    whole = path.read_bytes()
    path.write_bytes(whole + line(SOME[10])[:left])
    assert read_arrivals(path) == (SOME[:10], 1)
    write(path, SOME[20:30])
    assert read_arrivals(path) == (SOME[:10] + SOME[20:30], 1)


@pytest.mark.parametrize("left", [0, 1, len(HEADER) - 1])
def test_a_crash_in_the_header(tmp_path: Path, left: int) -> None:
    path = tmp_path / "arrivals"
    path.write_bytes(HEADER[:left])
    assert read_arrivals(path) == ([], int(left > 0))
    write(path, SOME)
    assert read_arrivals(path) == (SOME, 0)


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letters"
    path.write_text("Dear Ada,\n")
    with pytest.raises(SlicewiseError, match="record_arrivals"):
        write(path, SOME)
    assert path.read_text() == "Dear Ada,\n"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"{}", "f:1"), (b"at_s,model\n", "f:1"), (HEADER.replace(b": 1,", b": 2,"), "slicewise_arrivals"),
        (HEADER + b"[1, 2]\n", "f:2"), (HEADER + b'[-1, "a.b", 1, 0]\n', "f:2"),
        (HEADER + b'\n[1, "a", true, 0]\n', "f:3"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_named(tmp_path: Path, content: bytes, where: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(SlicewiseError) as refused:
        read_arrivals(path)
    assert where in refused.value.message.split(": ")[0] + refused.value.message


def call(started_ns: int = 0) -> Any:
    return SimpleNamespace(started_ns=started_ns, entry=SimpleNamespace(full_name="a.b"))


def counted(counter: Counter) -> tuple[float, float]:
    kept, lost = (counter.labels(recorded)._value.get() for recorded in ("true", "false"))
    return kept, lost


def a_counter() -> Counter:
    return Counter("arrivals", "", ["recorded"], registry=CollectorRegistry())


async def test_a_full_buffer_drops_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOST_WAITING", 3)
    counter = a_counter()
    recorder = Recorder(ArrivalFile(tmp_path / "arrivals", 4096, 1), counter)
    await recorder.start()
    for number in range(5):
        recorder.note(call(number), batch=number, sla_ns=0)
    await recorder.close()
    assert counted(counter) == (3, 2)
    assert [a.batch for a in read_arrivals(tmp_path / "arrivals")[0]] == [0, 1, 2]


async def test_a_disk_that_stalls_does_not_stall_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_PAUSE_S", 0.001)
    writing, go_on = threading.Event(), threading.Event()

    class Slow(ArrivalFile):
        def append(self, arrivals: list[Arrival]) -> int:
            writing.set()
            assert go_on.wait(30)
            return super().append(arrivals)

    recorder = Recorder(Slow(tmp_path / "arrivals", 4096, 1), a_counter())
    await recorder.start()
    recorder.note(call(1), 1, 0)
    assert await asyncio.to_thread(writing.wait, 30)
    recorder.note(call(2), 2, 0)  # the loop is here while the thread hangs
    go_on.set()
    await recorder.close()
    assert [a.batch for a in read_arrivals(tmp_path / "arrivals")[0]] == [1, 2]


async def test_what_cannot_be_written_is_counted_and_writing_goes_on(tmp_path: Path) -> None:
    counter = a_counter()
    path = tmp_path / "arrivals"
    file = ArrivalFile(path, 4096, 1)
    recorder = Recorder(file, counter)
    await recorder.start()
    file.close()
    path.unlink()
    path.mkdir()
    recorder.note(call(), 1, 0)
    await recorder._write()
    assert counted(counter) == (0, 1)
    path.rmdir()
    recorder.note(call(), 2, 0)
    await recorder.close()
    assert counted(counter) == (1, 1)
    assert [a.batch for a in read_arrivals(path)[0]] == [2]


async def test_a_place_that_cannot_be_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder(ArrivalFile(tmp_path / "file" / "arrivals", 4096, 1), a_counter())
    with pytest.raises(SlicewiseError, match="record_arrivals"):
        await recorder.start()
