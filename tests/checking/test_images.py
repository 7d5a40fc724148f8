"""What a check leaves in the state folder: environments, and nothing else once no other check is at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.checking import images


@pytest.fixture
def handler(tmp_path: Path) -> Path:
    folder = tmp_path / "handler"
    folder.mkdir()
    (folder / "requirements.txt").touch()
    return folder


def _bundle(folder: Path) -> Path:
    bundle = folder / "bundles" / "d"
    bundle.mkdir(parents=True)
    (bundle / "handler.py").touch()
    bundle.chmod(0o555)  # as builds freeze them
    return bundle


def test_bundles_go_with_the_last_check_and_environments_stay(handler: Path, tmp_path: Path) -> None:
    with images.kept(handler, tmp_path / "state") as first:
        assert first is not None
        bundle = _bundle(first)
        (first / "environments").mkdir()
        with images.kept(handler, tmp_path / "state") as second:
            assert second == first
        assert bundle.exists()  # the first is still at work
    assert not bundle.exists()
    assert (first / "environments").exists()


def test_a_handler_that_asks_for_nothing_leaves_nothing(handler: Path, tmp_path: Path) -> None:
    (handler / "requirements.txt").unlink()
    with images.kept(handler, tmp_path / "state") as folder:
        assert folder is None
    assert not (tmp_path / "state").exists()


def test_a_state_folder_that_cannot_be_is_no_failure(handler: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with images.kept(handler, tmp_path / "file") as folder:
        assert folder is None
