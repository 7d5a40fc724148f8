"""The user's sources that a model's classes need, and of each file only what they need.

A handler's file does more than define classes: it loads weights, opens connections, starts
servers. None of that may run again in a worker, so of every own module only the statements are
kept that define the needed names, and what those refer to, and so on. Dropped lines become
empty ones, which keeps line numbers in tracebacks true. A module that is imported whole
(`import net`, `from net import *`) is kept whole. Where a name stands for plain data (constants.py), its
definition becomes that literal: what it was computed from need not exist in the worker.
"""

import ast
import importlib.util
import io
import os
import sys
import types
import zipfile

from . import constants, provenance

MAIN = "__slicewise_main__"
EVERYTHING = None
_DATE = (1980, 1, 1, 0, 0, 0)


def sources_of(names):
    """(zip, values): the needed sources of own modules for (module, qualified name) pairs, empty without any.

    `values` are [module, name, value] of the plain data that the kept functions and classes read.
    """
    needed = {}
    pending = [
        (module, name.partition(".")[0] if name else EVERYTHING) for module, name in names if provenance.is_own(module)
    ]
    files = {}
    while pending:
        module, name = pending.pop()
        if module not in files:
            found = _Source.of(module)
            if found is None:
                continue
            files[module] = found
            needed[module] = set()
            for parent in _parents(module):
                pending.append((parent, ""))
        for further in files[module].need(name):
            if further not in needed.setdefault(further[0], set()):
                needed[further[0]].add(further)
                pending.append(further)
    return _zip(files), _values(files)


def _values(files):
    found = {}
    for module, source in sorted(files.items()):
        for owner, name in sorted(source.reads()):
            plain, value = constants.current(owner, name)
            if plain and (owner == module or provenance.is_own(owner)):
                found[owner, name] = value
    return [[module, name, value] for (module, name), value in sorted(found.items(), key=lambda item: item[0])]


def _parents(module):
    parts = module.split(".")[:-1]
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _zip(files) -> bytes:
    if not files:
        return b""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for module, source in sorted(files.items()):
            path = (MAIN if module == "__main__" else module).replace(".", "/")
            path += "/__init__.py" if source.is_package else ".py"
            archive.writestr(zipfile.ZipInfo(path, _DATE), source.kept())
    return out.getvalue()


class _Source:
    """One own module's file: which statements bind which names, and which are needed."""

    def __init__(self, module, text, is_package) -> None:
        self.module = module
        self.is_package = is_package
        self._lines = text.splitlines(keepends=True)
        self._statements = ast.parse(text).body
        self._kept = set()
        self._binders = {}
        self._literals = {}  # statement -> what stands in its place
        imported = set()
        for index, statement in enumerate(self._statements):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                imported.update(_bound(statement))
            for name in _bound(statement):
                self._binders.setdefault(name, []).append(index)
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                self._kept.add(index)
        for index, statement in enumerate(self._statements):
            base = _changed(statement)
            if base and base not in imported:
                self._binders.setdefault(base, []).append(index)
        self._stars = [
            index
            for index, statement in enumerate(self._statements)
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
        ]

    @classmethod
    def of(cls, module):
        """The source of a module; a namespace package is an empty one, None for what is not own."""
        path = provenance.source_path(module)
        if path is None:
            loaded = sys.modules.get(module)
            if getattr(loaded, "__path__", None) is not None and getattr(loaded, "__file__", None) is None:
                return cls(module, "", True)
            return None
        with open(path, "rb") as file:
            text = importlib.util.decode_source(file.read())
        return cls(module, text, os.path.basename(path) == "__init__.py")

    def need(self, name):
        """Keep what defines `name` (EVERYTHING: all); yields what that needs of other own modules."""
        if name is EVERYTHING:
            for bound in list(self._binders):
                self._make_literal(bound)
            fresh = [index for index in range(len(self._statements)) if index not in self._kept]
            self._kept.update(fresh)
            fresh = [index for index in fresh if index not in self._literals]
            return [further for index in fresh for further in self._imports(self._statements[index])]
        further = []
        pending = [name]
        while pending:
            wanted = pending.pop()
            indices = self._binders.get(wanted)
            if self._make_literal(wanted):
                self._kept.update(indices)
                continue
            if indices is None:
                if wanted and self.is_package:
                    further.append(("{}.{}".format(self.module, wanted), EVERYTHING))
                indices = self._stars if wanted else []
            for index in indices:
                if index in self._kept:
                    continue
                self._kept.add(index)
                statement = self._statements[index]
                further.extend(self._imports(statement))
                pending.extend(_used(statement) & set(self._binders))
                if self._stars and _used(statement) - set(self._binders):
                    pending.append("*")
        return [pair for pair in further if _source_exists(pair[0])]

    def _make_literal(self, name) -> bool:
        """Put a literal in the place of a name's definition, and nothing in that of later changes; False if not."""
        indices = self._binders.get(name)
        plain, value = constants.current(self.module, name) if indices else (False, None)
        text = constants.literal(value) if plain else None
        if text is None or not all(_defines_only(self._statements[index], name) for index in indices):
            return False
        first = self._statements[indices[0]]
        if len(indices) == 1 and isinstance(getattr(first, "value", None), ast.Constant):
            return False  # it is one already
        for index in indices:
            self._literals.setdefault(index, "")
        self._literals[indices[0]] = "{} = {}".format(name, text)
        return True

    def reads(self):
        """(module, name) of what kept functions and classes read of this module, or of another by its name."""
        namespace = getattr(sys.modules.get(self.module), "__dict__", {})
        found = set()
        for index in self._kept:
            statement = self._statements[index]
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    found.add((self.module, node.id))
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    owner = namespace.get(node.value.id)
                    if isinstance(owner, types.ModuleType):
                        found.add((owner.__name__, node.attr))
        return found

    def _imports(self, statement):
        found = []
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                found.extend((alias.name, EVERYTHING) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = self._absolute(node)
                for alias in node.names:
                    below = "{}.{}".format(module, alias.name)
                    if alias.name == "*":
                        found.append((module, EVERYTHING))
                    elif _source_exists(below):
                        found.append((below, EVERYTHING))
                    else:
                        found.append((module, alias.name))
        return [pair for pair in found if _source_exists(pair[0])]

    def _absolute(self, node):
        if not node.level:
            return node.module
        package = self.module.split(".")
        if not self.is_package:
            package = package[:-1]
        package = package[: len(package) - node.level + 1]
        return ".".join(package + ([node.module] if node.module else []))

    def kept(self) -> str:
        """The file's text with every dropped line empty."""
        lines = ["\n"] * len(self._lines)
        for index in sorted(self._kept):
            statement = self._statements[index]
            first = min([statement.lineno] + [d.lineno for d in getattr(statement, "decorator_list", [])])
            if index in self._literals:
                lines[first - 1] = self._literals[index] + "\n"
            else:
                lines[first - 1 : statement.end_lineno] = self._lines[first - 1 : statement.end_lineno]
        return "".join(lines)


def _source_exists(module) -> bool:
    return module in sys.modules and provenance.source_path(module) is not None


def _bound(statement):
    """Names that a top-level statement binds, in its nested blocks too but not in functions."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    if _is_main_guard(statement):
        return set()
    names = set()
    pending = [statement]
    while pending:
        node = pending.pop()
        if node is not statement and isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
        ):
            names.update(_bound(node))
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        pending.extend(ast.iter_child_nodes(node))
    return names


def _is_main_guard(statement) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Constant) and node.value == "__main__" for node in ast.walk(statement.test)
    )


def _changed(statement):
    """The name that a statement changes without binding it: `X["a"] = 1`, `X.b = 1`, `X.append(1)`."""
    if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        node = targets[0]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        node = statement.value.func
    else:
        return None
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _defines_only(statement, name) -> bool:
    """Whether a statement does nothing but define or change this name (`X = 1`, `X: int = 1`, `X += 1`, `X[0] = 1`)."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    else:
        return isinstance(statement, ast.Expr) and _changed(statement) == name
    return len(targets) == 1 and (
        (isinstance(targets[0], ast.Name) and targets[0].id == name) or _changed(statement) == name
    )


def _used(statement):
    """Names that a statement reads, anywhere inside it."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
