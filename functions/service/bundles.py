"""Images of functions as folders: content-addressed, immutable, known by name.

`slicewise build` copies a function's folder to `images/bundles/<sha256>/`, where nothing changes any
more, and points a name at it in `images/names.json`. The host starts replicas from there. What a
Dockerfile says is read by `bundles_dockerfile`, what requirements.txt asks for is installed by
`bundles_environments`.
"""

from __future__ import annotations

import ast
import compileall
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from functions.service import bundles_environments as environments
from functions.service.bundles_dockerfile import Dockerfile, read_dockerfile
from proto.types.errors import SlicewiseError

Progress = Callable[[str], None]

LAYOUT = 1  # part of every digest: another layout is another bundle
RECORD = "image.json"
TEMPLATES = ("python3-http", "python3-flask")
# What editors, version control and Python leave in a folder; none of it is the function.
LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".DS_Store", ".mypy_cache", ".pytest_cache"})
STALE_STAGING_S = 3600.0
_NAME = re.compile(r"[a-z0-9]+([._/:-]+[a-z0-9A-Z._-]+)*")


@dataclass(frozen=True)
class Image:
    """What `image.json` holds: everything the host needs to start a replica.

    `handler` is the module to import ("" if the bundle brings its own server, which is `fprocess`);
    `environment_id` names the folder under `images/environments`, "base" for the platform's own.
    """

    digest: str
    template: str
    handler: str
    environment_id: str
    labels: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    fprocess: str = ""
    upstream_url: str = ""
    mode: str = ""

    @property
    def gpu(self) -> bool:
        """Whether the image itself carries the GPU flag."""
        flags = (self.labels.get("com.slicewise.gpu", ""), self.environment.get("GPU_ENABLE", ""))
        return any(flag.strip().lower() in {"1", "true", "yes"} for flag in flags)


def build(
    directory: Path | str,
    name: str,
    images_dir: Path | str,
    progress: Progress | None = None,
    *,
    template: str = "python3-http",
    constraints: Path | None = None,
) -> str:
    """Register the folder `directory` as image `name`; returns the bundle's sha256.

    Building the same folder again changes nothing. Raises SlicewiseError `bad_image` with the file and
    line at fault, `disk_full` when the images folder has no room.
    """
    source, images, say = Path(directory), Path(images_dir), progress or (lambda _: None)
    _check_name(name)
    if not source.is_dir():
        raise SlicewiseError("bad_image", f"{source} is not a folder.")
    if template not in TEMPLATES:
        raise SlicewiseError("bad_image", f"The template {template} is not one of {', '.join(TEMPLATES)}.")
    dockerfile = read_dockerfile(source / "Dockerfile")
    if dockerfile.ignored:
        say(f"of the Dockerfile only LABEL, ENV and a server's CMD count here, not {', '.join(dockerfile.ignored)}")
    handler, nested = _find_handler(source, dockerfile)
    folder = source / "function" if (source / "function" / "handler.py").is_file() else source
    requirements = next((f for f in (folder / "requirements.txt", source / "requirements.txt") if f.is_file()), None)
    if (source / RECORD).exists():
        raise SlicewiseError("bad_image", f"{RECORD} is a name of the platform; rename that file of the function.")
    try:
        environment_id = environments.prepare(requirements, images, say, constraints)
        say("copying")
        return _store(source, name, images, dockerfile, handler, nested, environment_id, template)
    except OSError as error:
        if error.errno == 28:
            raise SlicewiseError("disk_full", f"There is no room left under {images}.") from error
        raise SlicewiseError("bad_image", f"{source} cannot be copied: {error}.") from error


def resolve(name: str, images_dir: Path | str) -> Image:
    """The image behind a name, `NAME@sha256:DIGEST` or `sha256:DIGEST`; raises SlicewiseError `bad_image`."""
    images = Path(images_dir)
    _, marked, digest = name.rpartition("sha256:")
    if not marked:
        names = _names(images)
        digest = names.get(_tagged(name), "")
        if not digest:
            known = ", ".join(sorted(names)[:10]) or "none yet"
            text = f"There is no image {name}; `slicewise build DIR -t {name}` makes one. Known: {known}."
            raise SlicewiseError("bad_image", text)
    return load(digest, images)


def load(digest: str, images_dir: Path | str) -> Image:
    """The image with this digest; raises SlicewiseError `bad_image` if its bundle is not here or damaged."""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise SlicewiseError("bad_image", f"{digest!r} is not the sha256 of a bundle.")
    try:
        record = json.loads((bundle_path(digest, images_dir) / RECORD).read_text())
        return Image(**record)
    except (OSError, ValueError, TypeError) as error:
        raise SlicewiseError("bad_image", f"The bundle {digest[:12]} is missing or damaged; build it again.") from error


def bundle_path(digest: str, images_dir: Path | str) -> Path:
    """The folder of a bundle."""
    return Path(images_dir) / "bundles" / digest


def list_names(images_dir: Path | str) -> dict[str, str]:
    """All registered names and their digests."""
    return _names(Path(images_dir))


# ---------------------------------------------------------------------------- inside


def _check_name(name: str) -> None:
    if len(name) > 255 or ".." in name or not _NAME.fullmatch(name):
        raise SlicewiseError("bad_image", f"{name!r} is no image name; use letters, digits and . _ - / : in it.")


def _tagged(name: str) -> str:
    """`hello` and `hello:latest` are one name, as everywhere in the world of images."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _find_handler(source: Path, dockerfile: Dockerfile) -> tuple[str, bool]:
    """(module to import, whether the folder must be placed under function/)."""
    if (source / "function" / "handler.py").is_file():
        return "function.handler", False
    if (source / "handler.py").is_file():
        return ("function.handler", True) if _wants_package(source) else ("handler", False)
    if dockerfile.fprocess:
        return "", False
    text = f"{source} has neither handler.py nor function/handler.py, and no Dockerfile that sets fprocess."
    raise SlicewiseError("bad_image", text)


def _wants_package(source: Path) -> bool:
    """Whether its files import each other as OpenFaaS lays them out: from the package `function`."""
    for file in sorted(source.glob("*.py")):
        try:
            tree = ast.parse(file.read_bytes(), filename=file.name)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise SlicewiseError("bad_image", f"{file.name} line {line}: {getattr(error, 'msg', error)}.") from error
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "function"):
                return True
            if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "function" for alias in node.names):
                return True
    return False


def _store(
    source: Path,
    name: str,
    images: Path,
    dockerfile: Dockerfile,
    handler: str,
    nested: bool,
    environment_id: str,
    template: str,
) -> str:
    bundles = images / "bundles"
    bundles.mkdir(parents=True, exist_ok=True)
    _sweep(bundles)
    staging = bundles / f".staging-{secrets.token_hex(6)}"
    try:
        target = staging / "function" if nested else staging
        _check_links(source)
        shutil.copytree(source, target, ignore=_ignore, symlinks=False)
        if nested:
            (target / "__init__.py").touch()
        # The OpenFaaS template's Dockerfile names the template's own index.py, which is not in the folder.
        own_server = bool(dockerfile.fprocess) and not (
            handler and dockerfile.fprocess.endswith("index.py") and not (source / "index.py").exists()
        )
        record: dict[str, Any] = {
            "template": "" if own_server else template,
            "handler": "" if own_server else handler,
            "environment_id": environment_id,
            "labels": dockerfile.labels,
            "environment": dockerfile.environment,
            "fprocess": dockerfile.fprocess if own_server else "",
            "upstream_url": dockerfile.upstream_url if own_server else "",
            "mode": dockerfile.mode if own_server else "",
        }
        digest = _digest(staging, record)
        final = bundles / digest
        if not final.exists():
            compileall.compile_dir(staging, quiet=2, workers=1, stripdir=str(staging), prependdir=str(final))
            (staging / RECORD).write_text(json.dumps(asdict(Image(digest=digest, **record)), indent=1) + "\n")
            _freeze(staging)
            try:
                staging.rename(final)
            except OSError:  # the same folder was built beside us: that bundle is this one
                if not (final / RECORD).exists():
                    raise
    finally:
        _remove(staging)
    _point(images, name, digest)
    return digest


def _check_links(source: Path) -> None:
    """Refuse links that lead out of the folder, and what is no file: a copy would hold what is not the function's."""
    inside = source.resolve()
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if name not in LEFT_OUT]
        for path in (Path(folder, name) for name in [*names, *files]):
            where = path.relative_to(source)
            if path.is_symlink() and not path.resolve().is_relative_to(inside) and not _is_interpreter(path):
                raise SlicewiseError("bad_image", f"{where} is a link to {os.readlink(path)}, outside of the folder.")
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise SlicewiseError("bad_image", f"{where} is neither a file nor a folder.")


def _is_interpreter(path: Path) -> bool:
    """Whether a link is a virtualenv's python, and leads to what everybody may read and run."""
    if path.parent.name != "bin" or not path.name.startswith("python") or not path.is_file():
        return False
    return (path.parent.parent / "pyvenv.cfg").is_file() and path.stat().st_mode & 0o005 == 0o005


def _ignore(_directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name in LEFT_OUT or name.endswith(".pyc")]


def _digest(folder: Path, record: dict[str, Any]) -> str:
    total = hashlib.sha256(f"slicewise bundle {LAYOUT}\n{json.dumps(record, sort_keys=True)}\n".encode())
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        executable = bool(file.stat().st_mode & 0o100)
        total.update(f"{file.relative_to(folder).as_posix()}\0{executable}\0{content}\n".encode())
    return total.hexdigest()


def _freeze(folder: Path) -> None:
    """Readable by every function's uid, writable by nobody."""
    for path in [folder, *folder.rglob("*")]:
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o555 if executable else 0o444)


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def _sweep(bundles: Path) -> None:
    """Remove what builds that were killed have left."""
    for staging in bundles.glob(".staging-*"):
        try:
            if time.time() - staging.stat().st_mtime > STALE_STAGING_S:
                _remove(staging)
        except FileNotFoundError:
            continue


def _names(images: Path) -> dict[str, str]:
    try:
        names: dict[str, str] = json.loads((images / "names.json").read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise SlicewiseError("bad_image", f"{images / 'names.json'} is damaged: {error}.") from error
    return names


def _point(images: Path, name: str, digest: str) -> None:
    with locked(images / "names.lock"):
        names = _names(images)
        names[_tagged(name)] = digest
        fresh = images / f".names-{secrets.token_hex(6)}"
        fresh.write_text(json.dumps(names, indent=1, sort_keys=True) + "\n")
        fresh.replace(images / "names.json")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes; the kernel frees it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
