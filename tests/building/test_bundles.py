"""Images from folders: what is kept, what is refused and how it is said, and two builds at once."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from functions.service import bundles, bundles_environments
from proto.types.errors import SlicewiseError
from tests import wheels

HANDLER = "def handle(event, context):\n    return 'ok'\n"


def _folder(where: Path, **files: str) -> Path:
    for name, text in files.items():
        path = where / name.replace("__", "/").replace("_txt", ".txt").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return where


def test_the_same_folder_is_the_same_bundle(tmp_path: Path) -> None:
    source, images = _folder(tmp_path / "f", handler_py=HANDLER), tmp_path / "images"
    first = bundles.build(source, "hello", images)
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "x.pyc").write_text("left over")
    assert bundles.build(source, "other:v2", images) == first
    assert bundles.resolve("hello:latest", images).digest == first
    assert bundles.resolve("other:v2", images) == bundles.resolve(f"sha256:{first}", images)
    (source / "handler.py").write_text(HANDLER + "# changed\n")
    second = bundles.build(source, "hello", images)
    assert second != first
    assert bundles.resolve("hello", images).digest == second
    assert bundles.load(first, images).handler == "handler"  # what runs from it goes on


def test_a_bundle_cannot_be_changed(tmp_path: Path) -> None:
    digest = bundles.build(_folder(tmp_path / "f", handler_py=HANDLER), "hello", tmp_path / "images")
    bundle = bundles.bundle_path(digest, tmp_path / "images")
    modes = {path.stat().st_mode & 0o222 for path in [bundle, *bundle.rglob("*")]}
    assert modes == {0}


def test_dockerfile_labels_and_environment(tmp_path: Path) -> None:
    dockerfile = (
        "FROM python:3.11\n# LABEL a=b\nLABEL com.slicewise.gpu=\"true\" \\\n  other='two words'\n"
        "ENV GPU_ENABLE 1\nENV A=1 B=${A}2\nRUN make everything\n"
        'ENV fprocess="python index.py"\nENV mode="http"\nENV upstream_url="http://127.0.0.1:5000"\n'
    )
    source = _folder(tmp_path / "f", function__handler_py=HANDLER, Dockerfile=dockerfile)
    bundles.build(source, "gpu", tmp_path / "images")
    image = bundles.resolve("gpu", tmp_path / "images")
    assert image.labels == {"com.slicewise.gpu": "true", "other": "two words"}
    assert image.environment == {"GPU_ENABLE": "1", "A": "1", "B": "12"}
    assert image.gpu
    assert (image.handler, image.fprocess) == ("function.handler", "")  # index.py is the OpenFaaS template's own


def test_what_a_dockerfile_asks_for_in_vain_is_said(tmp_path: Path) -> None:
    dockerfile = "FROM python:3.11\nENV GPU_ENABLE=1\nRUN apt-get install -y \\\n  ffmpeg\nCMD fwatchdog\n"
    source = _folder(tmp_path / "f", handler_py=HANDLER, Dockerfile=dockerfile)
    said: list[str] = []
    bundles.build(source, "quiet", tmp_path / "images", said.append)
    assert "of the Dockerfile only LABEL, ENV and a server's CMD count here, not RUN (line 3), CMD (line 5)" in said


@pytest.mark.parametrize(
    ("dockerfile", "process"),
    [
        ('ENV upstream_url=http://127.0.0.1:$PORT\nCMD ["env/bin/python", "my server.py", "$PORT"]', True),
        ("CMD env/bin/python 'my server.py' $PORT\nENV upstream_url=http://127.0.0.1:$PORT", True),
        ('CMD ["env/bin/python", "my server.py", "$PORT"]', False),
    ],
)
def test_a_servers_cmd_starts_it_where_upstream_url_is_known(tmp_path: Path, dockerfile: str, process: bool) -> None:
    source = _folder(tmp_path / "f", server_py="pass\n", Dockerfile=f"FROM python:3.11\n{dockerfile}\n")
    if not process:
        with pytest.raises(SlicewiseError, match="no Dockerfile that sets fprocess"):
            bundles.build(source, "own", tmp_path / "images")
        return
    bundles.build(source, "own", tmp_path / "images")
    image = bundles.resolve("own", tmp_path / "images")
    assert shlex.split(image.fprocess) == ["env/bin/python", "my server.py", "$PORT"]
    assert (image.mode, image.upstream_url) == ("http", "http://127.0.0.1:$PORT")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"readme_txt": "x"}, "neither handler.py nor function/handler.py"),
        ({"handler_py": "def handle(:\n"}, "handler.py line 1"),
        ({"handler_py": HANDLER, "Dockerfile": "FROM x\n\nLABEL a=1 b\n"}, "Dockerfile line 3: LABEL needs key=value"),
        (
            {"handler_py": HANDLER, "Dockerfile": "FROM x\nENV a='open\n"},
            "Dockerfile line 2: ENV has an unclosed quote",
        ),
        ({"handler_py": HANDLER, "requirements_txt": "# ok\nnumpy\n=what\n"}, "requirements.txt line 3"),
        ({"handler_py": HANDLER, "requirements_txt": "-r other.txt\n"}, "line 1: -r refers to other files"),
        (
            {"handler_py": HANDLER, "requirements_txt": "numpy\n./none.whl\n"},
            "line 2: there is no ./none.whl beside it",
        ),
        ({"handler_py": HANDLER, "image.json": "{}"}, "image.json is a name of the platform"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, files: dict[str, str], said: str) -> None:
    source = _folder(tmp_path / "f", **files)
    with pytest.raises(SlicewiseError) as caught:
        bundles.build(source, "bad", tmp_path / "images")
    assert caught.value.code == "bad_image"
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["", "UPPER", "../up", "a b", "x" * 300])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SlicewiseError) as caught:
        bundles.build(_folder(tmp_path / "f", handler_py=HANDLER), name, tmp_path / "images")
    assert caught.value.code == "bad_image"


def test_an_unknown_image_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    bundles.build(_folder(tmp_path / "f", handler_py=HANDLER), "known", tmp_path / "images")
    with pytest.raises(SlicewiseError) as caught:
        bundles.resolve("unknown", tmp_path / "images")
    assert caught.value.code == "bad_image"
    assert "known:latest" in caught.value.message


def _build(source: Path, images: Path, name: str) -> str:
    return bundles.build(source, name, images)


def test_builds_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    source = _folder(tmp_path / "f", handler_py=HANDLER)
    jobs = [(source, tmp_path / "images", f"name{n}") for n in range(6)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        digests = pool.starmap(_build, jobs)
    assert len(set(digests)) == 1
    assert len(bundles.list_names(tmp_path / "images")) == 6
    assert [path.name for path in (tmp_path / "images" / "bundles").iterdir()] == [digests[0]]


def test_requirements_that_the_base_satisfies_need_no_environment(tmp_path: Path) -> None:
    source = _folder(tmp_path / "f", handler_py=HANDLER, requirements_txt="waitress>=3  # there\nflask\n")
    bundles.build(source, "based", tmp_path / "images")
    assert bundles.resolve("based", tmp_path / "images").environment_id == "base"


def test_what_the_base_lacks_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = _folder(
        tmp_path / "package",
        pyproject="",
        tiny_thing_py="word = 'installed'\n",
    )
    (package / "pyproject").unlink()
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'tiny-thing'\nversion = '1.0'\n[tool.setuptools]\npy-modules = ['tiny_thing']\n"
    )
    wheels = tmp_path / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-q", "-w", str(wheels)]
    subprocess.run([*command, str(package)], check=True, timeout=110)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    source = _folder(tmp_path / "f", handler_py=HANDLER, requirements_txt="tiny-thing\nwaitress\n")
    said: list[str] = []
    bundles.build(source, "tiny", tmp_path / "images", said.append)
    bundles.build(source, "tiny", tmp_path / "images", said.append)
    assert said.count("installing 1 of 2 requirements") == 1
    image = bundles.resolve("tiny", tmp_path / "images")
    python = bundles_environments.python_of(image.environment_id, tmp_path / "images")
    program = "import tiny_thing, waitress, functions.service; print(tiny_thing.word)"
    found = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "installed"


def test_a_wheel_beside_the_handler_is_installed_and_its_content_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines with paths mean what lies beside requirements.txt, from wherever the build is started."""
    images, elsewhere = tmp_path / "images", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    source = _folder(tmp_path / "f", handler_py=HANDLER, requirements_txt="./private_one-1.0-py3-none-any.whl\n")
    found = []
    for word in ("first", "second"):
        wheels.make(source, "private_one", "1.0", {"private_one.py": f"WORD = {word!r}\n"})
        bundles.build(source, "private", images)
        environment = bundles.resolve("private", images).environment_id
        python = bundles_environments.python_of(environment, images)
        asked = [str(python), "-c", "import private_one; print(private_one.WORD)"]
        found.append((environment, subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()))
    assert [word for _, word in found] == ["first", "second"]
    assert found[0][0] != found[1][0]


def test_a_requirement_that_does_not_exist_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    source = _folder(tmp_path / "f", handler_py=HANDLER, requirements_txt="waitress\nno-such-thing-anywhere==9\n")
    with pytest.raises(SlicewiseError) as caught:
        bundles.build(source, "bad", tmp_path / "images")
    assert "line 2" in caught.value.message
    assert "no-such-thing-anywhere" in caught.value.message
    assert not [path for path in (tmp_path / "images" / "environments").iterdir() if path.is_dir()]


def test_pip_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles_environments, "PIP_TIMEOUT_S", 0.01)
    source = _folder(tmp_path / "f", handler_py=HANDLER, requirements_txt="no-such-thing-anywhere\n")
    with pytest.raises(SlicewiseError) as caught:
        bundles.build(source, "bad", tmp_path / "images")
    assert "did not end within" in caught.value.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root is let in everywhere")
def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    source = _folder(tmp_path / "f", handler_py=HANDLER)
    (source / "handler.py").chmod(0)
    with pytest.raises(SlicewiseError):
        bundles.build(source, "bad", tmp_path / "images")
