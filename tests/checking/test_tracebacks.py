"""Which lines of a traceback are shown, and what is told about the usual errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.checking import advice, tracebacks

LOG = """the handler's own line
_slicewise.calls._Raised: 
Traceback (most recent call last):
  File "/venv/site-packages/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "handler.py", line 8, in step
    raise ValueError("bad shape")
ValueError: bad shape


The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/platform/functions/service/template.py", line 119, in __call__
    result = self._handle(event, self._context)
  File "{folder}/handler.py", line 11, in handle
    return model(x)
           ^^^^^^^^
  File "/platform/functions/runtime/_slicewise/calls.py", line 63, in infer
    raise _error(answer)
ValueError: bad shape
[slicewise: a line of the platform's]
"""  # noqa: W291


def test_only_the_handlers_lines_are_left_and_those_on_the_slice_come_last(tmp_path: Path) -> None:
    (tmp_path / "handler.py").touch()
    (raised,) = tracebacks.find(LOG.replace("{folder}", str(tmp_path)), tmp_path)
    assert (raised.kind, raised.text) == ("ValueError", "bad shape")
    assert [(frame.file, frame.line, frame.on_slice, frame.code) for frame in raised.own_frames] == [
        ("handler.py", 11, False, "return model(x)"),
        ("handler.py", 8, True, 'raise ValueError("bad shape")'),
    ]


def test_text_that_only_looks_like_a_traceback_is_none(tmp_path: Path) -> None:
    assert tracebacks.find("Traceback (most recent call last):\n  nothing\n!! not an exception\n", tmp_path) == []


@pytest.mark.parametrize(
    ("module", "line"), [("sklearn.svm", "scikit-learn"), ("cv2", "opencv-python-headless"), ("nltk", "nltk")]
)
def test_a_missing_module_is_told_by_its_distribution(tmp_path: Path, module: str, line: str) -> None:
    said = advice.of_exception("ModuleNotFoundError", f"No module named '{module}'", tmp_path)
    assert said == f"Add a file requirements.txt beside handler.py with the line `{line}`."
    (tmp_path / "requirements.txt").touch()
    assert "Add the line" in advice.of_exception("ModuleNotFoundError", f"No module named '{module}'", tmp_path)


def test_tensorflow_is_told_of_keras_on_torch_wherever_it_shows(tmp_path: Path) -> None:
    assert "KERAS_BACKEND=torch" in advice.of_exception("ModuleNotFoundError", "No module named 'tensorflow'", tmp_path)
    (tmp_path / "handler.py").write_text("import os\nfrom tensorflow import keras\n")
    assert advice.imports_tensorflow(tmp_path) == "handler.py:2"
    (tmp_path / "handler.py").write_text("import keras\n")
    assert advice.imports_tensorflow(tmp_path) == ""
    assert advice.keras_without_backend(tmp_path, {}) == "handler.py:1"
    assert advice.keras_without_backend(tmp_path, {"KERAS_BACKEND": "torch"}) == ""


def test_what_cannot_be_carried_is_parted_from_the_way_out() -> None:
    said = "Slicewise cannot carry backward() through a model: train the model before it is deployed."
    assert advice.carried(said) == (
        "Slicewise cannot carry backward() through a model.",
        "Train the model before it is deployed.",
    )
