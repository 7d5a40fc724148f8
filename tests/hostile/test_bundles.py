"""A function's folder may come from anywhere: what it links to outside of itself does not get into a bundle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from functions.service import bundles
from proto.types.errors import SlicewiseError

HANDLER = "def handle(event, context):\n    return 'ok'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A function, and beside it a file of somebody else."""
    source = tmp_path / "function"
    source.mkdir()
    (source / "handler.py").write_text(HANDLER)
    (tmp_path / "secret").write_text("not the function's")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "secret").write_text("not the function's")
    return source


def refused(folder: Path) -> str:
    images = folder.parent / "images"
    with pytest.raises(SlicewiseError) as caught:
        bundles.build(folder, "linked", images)
    assert caught.value.code == "bad_image"
    assert not [path for path in images.rglob("*") if path.is_file() and "not the function's" in path.read_text()]
    return caught.value.message


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "../others", "/proc/self/environ", "../../../../etc"])
def test_a_link_that_leads_out_is_refused_by_name(folder: Path, target: str) -> None:
    (folder / "data").symlink_to(target)
    assert f"data is a link to {target}" in refused(folder)


def test_a_link_through_a_link_is_followed_to_its_end(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "way").symlink_to("../../others", target_is_directory=True)
    (folder / "data").symlink_to("inner/way/secret")
    assert "is a link to" in refused(folder)


def test_a_link_within_the_folder_is_copied(folder: Path) -> None:
    (folder / "data.txt").write_text("its own")
    (folder / "link.txt").symlink_to("data.txt")
    images = folder.parent / "images"
    bundle = bundles.bundle_path(bundles.build(folder, "linked", images), images)
    assert (bundle / "link.txt").read_text() == "its own"


def test_a_pipe_holds_no_build_up(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "pipe is neither a file nor a folder" in refused(folder)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "x\0y", "", ".", "x" * 300, "A B"])
def test_an_image_name_leads_nowhere_else(folder: Path, name: str) -> None:
    with pytest.raises(SlicewiseError):
        bundles.build(folder, name, folder.parent / "images")
