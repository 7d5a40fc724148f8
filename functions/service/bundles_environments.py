"""What a function's requirements.txt asks for, installed once and shared by all that ask for the same.

An environment is a virtualenv over the base: the platform's own site-packages come after its own, so
torch and whatever else is there already is not installed again. Its id is the hash of the
requirements and the base; where the base satisfies every line the id is "base" and nothing is made.
A line may name a wheel or a folder beside the file: then what is in there counts, too.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from proto.types.errors import SlicewiseError

BASE = "base"
DONE = "environment.json"
# A large wheel over a slow line takes minutes; a resolver that searches for longer than this will not end.
PIP_TIMEOUT_S = float(os.environ.get("SLICEWISE_PIP_TIMEOUT_S", "600"))
CONSTRAINTS = "SLICEWISE_PIP_CONSTRAINTS"
_OURSELVES = "slicewise"  # whose commands are the platform's own
_ARCHIVES = (".whl", ".tar.gz", ".zip")


def prepare(requirements: Path | None, images: Path, say: Callable[[str], None], constraints: Path | None) -> str:
    """Make the environment for a requirements file and return its id.

    Raises SlicewiseError `bad_image` with pip's own sentence and the line it is about.
    """
    if requirements is None:
        return BASE
    lines = _lines(requirements)
    missing = [line for _, line in lines if not _satisfied(line)]
    if not any(line for line in missing if not line.startswith("-")):
        return BASE
    if constraints is None and os.environ.get(CONSTRAINTS):
        constraints = Path(os.environ[CONSTRAINTS])
    bound = constraints.read_text() if constraints else ""
    local = {line: path for line in missing if (path := local_path(line, requirements.parent)) is not None}
    facts = [2, sorted(missing), sys.version, sys.prefix, _base(), bound]
    if local:
        facts.append([[line, _content(path)] for line, path in sorted(local.items())])
    identity = json.dumps(facts)
    environment_id = hashlib.sha256(identity.encode()).hexdigest()[:32]
    folder = images / "environments" / environment_id
    # Scripts in a virtualenv carry its path, so it cannot be moved into place: it is made there, under a
    # lock, and counts only once DONE is written.
    from functions.service.bundles import locked

    with locked(images / "environments" / f"{environment_id}.lock"):
        if (folder / DONE).exists():
            return environment_id
        shutil.rmtree(folder, ignore_errors=True)
        say(f"installing {len(missing)} of {len(lines)} requirements")
        try:
            _install(folder, missing, local, lines, constraints)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        (folder / DONE).write_text(json.dumps({"requirements": missing, "python": sys.version}) + "\n")
    return environment_id


def python_of(environment_id: str, images: Path) -> Path:
    """The interpreter of an environment; raises SlicewiseError `bad_image` if it is not here."""
    if environment_id == BASE:
        return Path(sys.executable)
    folder = images / "environments" / environment_id
    if not (folder / DONE).exists():
        raise SlicewiseError("bad_image", f"The environment {environment_id} is not here; build the image again.")
    return folder / "bin" / "python"


def _lines(requirements: Path) -> list[tuple[int, str]]:
    try:
        text = requirements.read_text()
    except UnicodeDecodeError as error:
        raise SlicewiseError("bad_image", "requirements.txt is not UTF-8 text.") from error
    found = []
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        stripped = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not stripped:
            continue
        if re.match(r"(-r|-c|-e|--requirement|--constraint|--editable)\b", stripped):
            text = f"requirements.txt line {number}: {stripped.split()[0]} refers to other files; name the packages."
            raise SlicewiseError("bad_image", text)
        local = local_path(stripped, requirements.parent)
        if local is not None and not local.exists():
            text = f"requirements.txt line {number}: there is no {_spelled(stripped)} beside it."
            raise SlicewiseError("bad_image", text)
        if not stripped.startswith("-") and local is None:
            _parse(number, stripped)
        found.append((number, stripped))
    return found


def _spelled(line: str) -> str:
    """The path in a line that names one, without extras and markers."""
    return re.split(r"[;\[]", line, maxsplit=1)[0].strip()


def local_path(line: str, folder: Path) -> Path | None:
    """The wheel, archive or folder that a line of requirements.txt in `folder` names; None for everything else."""
    word = _spelled(line)
    if line.startswith("-") or "://" in word or "@" in word:
        return None
    if word.startswith(".") or "/" in word or word.endswith(_ARCHIVES):
        return folder / word
    return None


def _content(path: Path) -> str:
    """A hash of a file, or of all files of a folder and their names."""
    total = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file()):
        if "__pycache__" not in file.parts:
            total.update(f"{file.relative_to(path).as_posix()}\0".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def _parse(number: int, line: str) -> None:
    from pip._vendor.packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(line)
    except InvalidRequirement as error:
        if "://" in line or line.startswith((".", "/")):  # pip takes addresses without a name too
            return
        reason = str(error).splitlines()[0]
        raise SlicewiseError("bad_image", f"requirements.txt line {number}: {line!r}: {reason}") from error


def _satisfied(line: str) -> bool:
    """Whether the base has what one line asks for; what its distributions lack themselves is the base's affair."""
    from pip._vendor.packaging.requirements import InvalidRequirement, Requirement

    if _spelled(line).endswith(_ARCHIVES):  # which may look like a name
        return False
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return False
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    if wanted.url or wanted.extras:
        return False
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return bool(wanted.specifier.contains(version, prereleases=True))


def _base() -> list[str]:
    return sorted(f"{found.name}=={found.version}" for found in importlib.metadata.distributions())


def _install(
    folder: Path,
    missing: list[str],
    local: dict[str, Path],
    lines: list[tuple[int, str]],
    constraints: Path | None,
) -> None:
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], "The virtual environment could not be made", [])
    relative = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    own, base = folder / relative, sysconfig.get_path("purelib")
    (own / "zz_base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
    wanted = folder / "requirements.txt"
    wanted.write_text("\n".join(_found(line, local, folder / "local") for line in missing) + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "-r", str(wanted)]
    if constraints is not None:
        command += ["-c", str(constraints)]
    _run(command, "requirements.txt could not be installed", lines)
    _link_commands(folder / "bin")


def _link_commands(bin_folder: Path) -> None:
    """Make the commands of what the base brings run in the environment, with all that is installed there."""
    for distribution in importlib.metadata.distributions():
        for command in distribution.entry_points.select(group="console_scripts"):
            script = bin_folder / command.name
            if script.exists() or distribution.name == _OURSELVES:
                continue
            module, _, function = command.value.partition("[")[0].strip().partition(":")
            lines = [
                f"#!{bin_folder / 'python'}",
                "import operator, sys",
                f"import {module}",
                f"sys.exit(operator.attrgetter({function!r})(sys.modules[{module!r}])())",
            ]
            script.write_text("\n".join(lines) + "\n")
            script.chmod(0o755)


def _found(line: str, local: dict[str, Path], copies: Path) -> str:
    """The line as pip finds it from anywhere. A folder is built from a copy: building writes into it."""
    if line not in local:
        return line
    word, path = _spelled(line), local[line].resolve()
    if path.is_dir():
        path = Path(shutil.copytree(path, copies / str(len(list(copies.glob("*")))) / path.name))
    return f"{path}{line[len(word) :]}"


def _run(command: list[str], what: str, lines: list[tuple[int, str]]) -> None:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=PIP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise SlicewiseError("bad_image", f"{what}: pip did not end within {PIP_TIMEOUT_S:g} s.") from error
    if process.returncode:
        told = [line for line in output.splitlines() if line.startswith("ERROR:")] or output.splitlines()[-1:]
        said = " ".join(line.removeprefix("ERROR:").strip() for line in told[:3])
        raise SlicewiseError("bad_image", f"{what}: {_named(said, lines)}{said}")


def _named(said: str, lines: list[tuple[int, str]]) -> str:
    """`line N: ` for the requirement that pip complains of."""
    for number, line in lines:
        name = re.split(r"[\s\[<>=!~;@]", line, maxsplit=1)[0]
        if name and not name.startswith("-") and re.search(rf"(?i)\b{re.escape(name)}\b", said):
            return f"line {number}: "
    return ""
