"""What an image brings is what its function has, in its own process and on the slice."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from tests import wheels
from tests.platform_functions import deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

Built = Callable[..., str]


@pytest.mark.parametrize("version", ["4.25.8", "6.31.1"])
def test_its_protobuf_is_its_own(platform: Platform, built: Built, version: str) -> None:
    """The platform speaks protobuf itself; nothing of that is in the way, in the function or on the slice."""
    name = f"protobuf-{version[0]}"
    assert metadata.version("protobuf") != version
    image = built("protobuf", name, lambda folder: write(folder / "requirements.txt", f"protobuf=={version}\n"))
    deploy(platform, name, image, gpu=True)
    try:
        assert platform.call(name).json() == {"here": version, "there": float(version[0]), "word": "seven"}
    finally:
        remove(platform, name)


def test_a_model_of_a_private_package_runs_on_the_slice(platform: Platform, built: Built) -> None:
    """Its class is neither the function's own source nor known to the platform: the environment brings it."""

    def private_wheel(folder: Path) -> None:
        layers = "import torch\n\nclass Triple(torch.nn.Module):\n    def forward(self, x):\n        return 3 * x\n"
        wheels.make(
            folder, "private_models", "1.0", {"private_models/__init__.py": "", "private_models/layers.py": layers}
        )
        write(folder / "requirements.txt", "./private_models-1.0-py3-none-any.whl\n")

    deploy(platform, "private", built("private", change=private_wheel), gpu=True)
    try:
        reply = platform.call("private")
        assert reply.json()["value"] == 6.0
        assert "/environments/" in reply.json()["where"]
        assert reply.headers["x-slicewise-slice"]
    finally:
        remove(platform, "private")


@pytest.mark.slow
def test_another_version_of_a_library_is_used_on_the_slice_too(platform: Platform, built: Built) -> None:
    deploy(platform, "library", built("library"), gpu=True)
    try:
        seen = platform.call("library").json()
        assert seen["here"] == seen["there"] == "5.20.2" != metadata.version("transformers")
        assert len(seen["found"]) == 4
        assert seen["found"] == pytest.approx(seen["expected"], rel=1e-5)
    finally:
        remove(platform, "library")


def test_a_virtualenv_in_the_image_is_interposed(platform: Platform, built: Built) -> None:
    """CMD starts the python of a virtualenv that lies in the image."""

    def virtualenv(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True, timeout=60)
        packages = folder / "env" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        write(packages / "only_in_the_virtualenv.py", "WORD = 'found'\n")
        write(packages / "torch_is_there.pth", sysconfig.get_path("purelib") + "\n")

    deploy(platform, "virtual", built("virtual", change=virtualenv), gpu=True)
    try:
        reply = platform.call("virtual")
        assert (reply.json()["value"], reply.json()["word"]) == (-6.0, "found")
        assert reply.json()["prefix"].endswith("/env")
        assert reply.headers["x-slicewise-slice"]
    finally:
        remove(platform, "virtual")


def write(path: Path, text: str) -> None:
    path.write_text(text)
