"""What to do about an error: from what Python, torch or the platform say, one sentence for the handler's author."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

# Modules whose distribution has another name; for all others they are the same.
_DISTRIBUTIONS = {
    "PIL": "Pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "google.protobuf": "protobuf",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "multipart": "python-multipart",
    "sentence_transformers": "sentence-transformers",
    "silero_vad": "silero-vad",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "usb": "pyusb",
    "yaml": "PyYAML",
}
_TENSORFLOW = frozenset({"tensorflow", "tf_keras", "tensorflow_hub"})
KERAS = (
    "Slices run PyTorch: keep the model in Keras 3 on its torch backend (`pip` name `keras` in requirements.txt, "
    "`ENV KERAS_BACKEND=torch` in the Dockerfile or `-e KERAS_BACKEND=torch`, no `import tensorflow`) and move it with "
    '`model.to("cuda")`.'
)
NOT_INTERPOSED = (
    "Start python without -I, -E and -S, and leave PYTHONPATH as it is given (add to it instead of replacing it): "
    "that is how Slicewise's runtime comes into the process. Until then nothing runs on a slice."
)
_INFERENCE = "Slices run inference only: train the model before it is deployed, and call it without backward()."
_MISSING = re.compile(r"No module named '([\w.]+)'")
_CARRY = re.compile(r"^Slicewise cannot carry (?P<what>.+?): (?P<way>[^:].*)$", re.S)
# What the platform says at registration, where the code does not come along.
_TOO_LARGE = re.compile(r"largest slice has|does not fit|do not fit")
TOO_LARGE = "model_too_large"
_BY_CODE = {
    TOO_LARGE: "Give it a slice with more memory, or make the model smaller (half precision, another size).",
    "deadline_exec": "Raise exec_timeout (`-e exec_timeout=2m`; here --timeout), or do less in one call.",
    "function_died": "See the handler's last words; memory that it takes itself counts, too.",
    "no_slice": "Give the platform a slice (`--slices`).",
}


def carried(text: str) -> tuple[str, str]:
    """(what cannot be carried, the way out) of the runtime's own sentence, (text, "") of any other."""
    match = _CARRY.match(text)
    return (f"Slicewise cannot carry {match['what']}.", _sentence(match["way"])) if match else (text, "")


def of_exception(kind: str, text: str, folder: Path) -> str:
    """The way out of an exception that the handler let pass, "" where its text is all there is to say."""
    name = kind.rpartition(".")[2]
    if name == "SlicewiseError":
        return carried(text)[1] or (_BY_CODE[TOO_LARGE] if too_large(text) else "")
    if name in ("ModuleNotFoundError", "ImportError"):
        match = _MISSING.search(text)
        return _missing(match[1], folder) if match else "Check the versions in requirements.txt."
    if "does not require grad" in text or "backward()" in text:
        return _INFERENCE
    return ""


def too_large(text: str) -> bool:
    """Whether a sentence of the platform says that a model fits no slice."""
    return bool(_TOO_LARGE.search(text))


def of_code(code: str) -> str:
    """The way out of a refusal of the platform."""
    if code.startswith("deadline_"):
        return _BY_CODE["deadline_exec"]
    return _BY_CODE.get(code, "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _missing(module: str, folder: Path) -> str:
    top = module.partition(".")[0]
    if top in _TENSORFLOW:
        return KERAS
    if top in sys.stdlib_module_names:
        return f"{top} belongs to Python itself, but not to this version of it ({sys.version.split()[0]})."
    distribution = _DISTRIBUTIONS.get(module) or _DISTRIBUTIONS.get(top, top)
    files = [file for file in (folder / "requirements.txt", folder / "function" / "requirements.txt") if file.exists()]
    if not files:
        return f"Add a file requirements.txt beside handler.py with the line `{distribution}`."
    return f"Add the line `{distribution}` to requirements.txt."


def imports_tensorflow(folder: Path) -> str:
    """Where (FILE:LINE) the handler's own files import TensorFlow, "" if they do not."""
    return next((where for module, where in _imports(folder) if module in _TENSORFLOW), "")


def keras_without_backend(folder: Path, environment: Mapping[str, str]) -> str:
    """Where Keras is imported though nobody chooses its torch backend, so that it looks for TensorFlow."""
    if environment.get("KERAS_BACKEND"):
        return ""
    if any("KERAS_BACKEND" in file.read_text(errors="replace") for file in folder.rglob("*.py")):
        return ""
    return next((where for module, where in _imports(folder) if module == "keras"), "")


def _imports(folder: Path) -> Iterator[tuple[str, str]]:
    """(top-level module, FILE:LINE) of every import in the handler's files; what does not parse is left out."""
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue
        where = file.relative_to(folder)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], f"{where}:{node.lineno}") for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0], f"{where}:{node.lineno}"
