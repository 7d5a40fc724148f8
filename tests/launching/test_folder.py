"""The state folder: one launcher at a time, ports that stay, secrets that only their owner reads."""

from __future__ import annotations

import json
import random
import socket
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cache_manager.service.settings import CacheManagerSettings
from functions.service.settings import Settings as HostSettings
from gateway.service.settings import Settings as GatewaySettings
from gpu_manager.service.settings import GpuManagerSettings
from proto.types.errors import SlicewiseError
from proto.wire import peers
from proto.wire.credentials import SigningKey, Trust
from proto.wire.settings import ServiceSettings, read
from scheduler.service.settings import SchedulerSettings
from slicewise.launcher import board, issuing, lock, logs, ports, truth
from slicewise.launcher.layout import Layout, default_state_dir
from slicewise.launcher.services import plan, port_names
from slicewise.launcher.settings import read_up_settings


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "state")
    made.make()
    return made


def test_a_second_launcher_says_who_holds_the_folder(layout: Layout) -> None:
    first = lock.Lock(layout.lock)
    first.take()
    other = (
        "import sys; from pathlib import Path; from slicewise.launcher.lock import Lock; Lock(Path(sys.argv[1])).take()"
    )
    done = subprocess.run([sys.executable, "-c", other, str(layout.lock)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert f"already running on {layout.root}" in done.stderr
    holder = lock.holder(layout.lock)
    assert holder
    assert f"pid {holder}" in done.stderr
    first.release()
    assert lock.holder(layout.lock) is None


def test_looking_at_the_lock_does_not_keep_a_launcher_out(layout: Layout) -> None:
    for _ in range(50):
        assert lock.holder(layout.lock) is None
        holder = lock.Lock(layout.lock)
        holder.take()
        holder.release()


def test_ports_are_kept_while_they_are_free_and_lie_below_those_of_outgoing_connections() -> None:
    names = [f"service-{number}" for number in range(20)]
    first = ports.Ports()
    chosen = first.choose(names, {})
    first.release()
    assert len(set(chosen.values())) == 20
    assert all(20_000 <= port <= 32_000 for port in chosen.values())
    second, third = ports.Ports(), ports.Ports()
    assert second.choose(names, chosen) == chosen
    second.release()
    with socket.create_server(("127.0.0.1", chosen["service-3"])):
        again = third.choose(names, chosen)
        third.release()
        assert again["service-3"] != chosen["service-3"]
        assert {**again, "service-3": 0} == {**chosen, "service-3": 0}


def test_a_port_that_somebody_else_uses_is_refused_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SlicewiseError, match=f"127.0.0.1:{port} is in use.*--port"):
            ports.Ports().claim("gateway", "127.0.0.1", port, 0, "--port")


class Repeating(random.Random):
    """Gives the same ports to everybody who asks."""

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__(0)
        self._given = iter(given)

    def randint(self, first: int, last: int) -> int:
        return next(self._given)


def test_two_launchers_that_start_at_once_never_choose_one_port() -> None:
    """What one has chosen is the other's no more, though nobody listens there yet; it is when its holder is done."""
    before = ports.Ports()
    drawn = before.choose(["a", "b", "c"], {})
    before.release()
    one, other = ports.Ports(Repeating(list(drawn.values()))), ports.Ports(Repeating([*drawn.values(), 31_999, 31_998]))
    assert one.choose(["x"], {}) == {"x": drawn["a"]}
    assert other.choose(["x"], {}) == {"x": drawn["b"]}
    assert other.choose(["y"], {"y": drawn["a"]})["y"] == drawn["c"]
    with pytest.raises(SlicewiseError, match="perhaps another Slicewise"):
        other.claim("gateway", "127.0.0.1", drawn["a"], 0, "--port")
    one.release()
    assert other.claim("gateway", "127.0.0.1", drawn["a"], 0, "--port") == drawn["a"]
    other.release()


def test_a_launcher_that_is_killed_leaves_no_port_reserved() -> None:
    code = "import sys; from slicewise.launcher.ports import Ports; print(Ports().choose(['a'], {})['a'], flush=True)"
    waits = f"{code}; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        process.kill()
    mine = ports.Ports()
    assert mine.claim("gateway", "127.0.0.1", port, 0, "--port") == port
    mine.release()


def test_keys_are_made_once_and_only_their_owner_reads_them(layout: Layout) -> None:
    issuing.issue(layout, ("gateway", "scheduler"))
    before = {path.name: path.read_bytes() for path in layout.keys.iterdir() if path.suffix != ".token"}
    password = issuing.read(layout.password)
    assert len(password) == 32
    assert password.isalnum()
    issuing.issue(layout, ("gateway", "scheduler"))
    assert {path.name: path.read_bytes() for path in layout.keys.iterdir() if path.suffix != ".token"} == before
    assert issuing.read(layout.password) == password
    for folder in (layout.keys, layout.secrets, layout.config, layout.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    trust = Trust.load(layout.trust)
    assert peers.verify_subject(trust, issuing.read(issuing.credential(layout, "gateway"))) == "service:gateway"


def test_nobody_signs_for_another_issuer(layout: Layout) -> None:
    issuing.issue(layout, ())
    replicas = SigningKey.load("replicas", layout.keys / "replicas.key")
    with pytest.raises(SlicewiseError):
        peers.verify_subject(Trust.load(layout.trust), replicas.sign({"sub": "service:gateway"}))


def test_every_service_has_a_file_that_its_own_settings_accept(layout: Layout) -> None:
    settings = read_up_settings({"agents": 2, "slices": "1x1g:64MiB"}, None)
    addresses = {name: 20_000 + index for index, name in enumerate([*port_names(settings), "gateway", "metrics"])}
    issuing.issue(layout, ("gateway", "scheduler", "cache_manager", "gpu_manager", "host"))
    services = plan(layout, settings, addresses)
    assert [item.name for item in services] == [
        "etcd", "cache_manager", "scheduler", "host-a", "gpu_manager-a", "host-b", "gpu_manager-b", "gateway",
    ]  # fmt: skip
    read_by: dict[str, type[ServiceSettings]] = {
        "cache_manager": CacheManagerSettings,
        "scheduler": SchedulerSettings,
        "gpu_manager": GpuManagerSettings,
        "gateway": GatewaySettings,
        "host": HostSettings,
    }
    for item in services[1:]:
        kind, flag, file = item.name.partition("-")[0], *item.command[3:5]
        read_back = read(read_by[kind], kind, [flag, file])
        assert read_back.etcd == f"127.0.0.1:{addresses['etcd']}"
        if isinstance(read_back, HostSettings):
            assert read_back.node in settings.nodes


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"agents": 0}, "agents"),
        ({"port": 70_000}, "port"),
        ({"time_scale": 0.0}, "time_scale"),
        ({"slices": "1x1g:1GiB", "emulate": "/nowhere.yaml"}, "slices"),
        ({"emulate": "/nowhere.yaml"}, "emulate: there is no file /nowhere.yaml"),
    ],
)
def test_bad_settings_are_named(flags: dict[str, object], named: str) -> None:
    with pytest.raises(SlicewiseError, match=named):
        read_up_settings(flags, None)


def test_a_file_of_settings_is_read_and_flags_win(tmp_path: Path) -> None:
    file = tmp_path / "up.yaml"
    file.write_text("agents: 3\nport: 9999\ngateway: {max_in_flight: 5}\n")
    settings = read_up_settings({"port": 7777, "agents": None}, file)
    assert (settings.agents, settings.port, settings.gateway) == (3, 7777, {"max_in_flight": 5})
    assert settings.nodes == ("a", "b", "c")
    file.write_text("agentz: 3\n")
    with pytest.raises(SlicewiseError, match="agentz: there is no such setting"):
        read_up_settings({}, file)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SlicewiseError, match="state-dir"):
        Layout(tmp_path / "file" / "state").make()


def test_the_folder_is_the_environment_s_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLICEWISE_STATE_DIR", str(tmp_path))
    assert default_state_dir() == tmp_path


def test_down_is_told_apart_from_never_started_and_from_killed(layout: Layout) -> None:
    assert truth.look(layout).state == truth.DOWN
    assert "never started" in truth.look(layout).why
    shown = board.Board(layout.board, phase="ready")
    shown.publish()
    assert truth.look(layout).state == truth.DOWN
    assert "without stopping" in truth.look(layout).why
    shown.failure = "no etcd"
    shown.publish()
    assert "no etcd" in truth.look(layout).why


def test_a_pid_on_the_board_counts_only_while_it_lives(layout: Layout) -> None:
    holder = lock.Lock(layout.lock)
    holder.take()
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass
    shown = board.Board(layout.board, phase="ready")
    shown.entries = {"gateway": board.Entry("gateway", board.READY, pid=ended.pid, started=1.0, ready=2.0)}
    shown.publish()
    seen = truth.look(layout)
    assert seen.state == truth.DEGRADED
    assert f"pid {ended.pid} is gone" in seen.why
    holder.release()


def test_logs_are_bounded_and_their_end_is_what_people_want(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    lines = [
        json.dumps({"level": "INFO", "message": "all is well"}),
        json.dumps({"level": "ERROR", "message": "cannot serve", "exc_info": "Traceback\nValueError: no"}),
        "Killed",
    ]
    log.write_text("\n".join(lines) + "\n")
    assert logs.tail(log) == ["cannot serve (ValueError: no)", "Killed"]
    assert logs.tail(tmp_path / "none.log") == []
    assert not logs.rotate(log, max_bytes=10_000)
    with log.open("a") as service:
        for number in range(5):
            service.write("x" * 2000)
            service.flush()
            assert logs.rotate(log, max_bytes=1000), number
            assert log.stat().st_size == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2"]
