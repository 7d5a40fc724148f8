"""Registration: a marked module becomes a package with a digest, and its weights leave this process."""

import io
import os
import sys

from . import calls, channel, digest, interception, package, payload, provenance, remote, shaking, tree
from .errors import SlicewiseError

PROGRAM = "_slicewise_program"  # the ExportedProgram that a module was made from


def register(module):
    """(digest, names, values) of a module, intercepted or not, which is registered now; its weights are remote.

    `names`: (module, qualified name) of its own and the libraries' classes; `values`: as shaking.sources_of gives them.
    """
    torch = sys.modules["torch"]
    script = isinstance(module, torch.jit.ScriptModule)
    program = module.__dict__.get(PROGRAM)
    if program is not None:
        described = _exported(module, program, torch)
    else:
        described = _script(module, torch) if script else _module(module, torch)
    manifest, skeleton, sources, tensors, names, values = described
    _announce(manifest, skeleton, sources, tensors)
    _replace_weights(module, torch, manifest["digest"], script)
    return manifest["digest"], names, values


def _announce(manifest, skeleton, sources, tensors) -> None:
    model = {
        "digest": manifest["digest"],
        "kind": manifest["kind"],
        "class_name": manifest["class_name"],
        "tensor_bytes": manifest["tensor_bytes"],
        "python": manifest["python"],
        "torch": manifest["torch"],
        "distributions": manifest["distributions"],
        "environment": manifest["environment"],
        "modules": manifest["modules"],
    }
    answer = channel.ask({"op": "register", "model": model, "probe": True})
    if not answer.get("needed", True):
        return
    fd, size = package.write(manifest, skeleton, sources, tensors)
    try:
        channel.ask({"op": "register", "model": model, "bytes": size}, [fd])
    finally:
        os.close(fd)


def _common(torch, module):
    kind = type(module)
    return {
        "class_name": getattr(module, "original_name", None) or kind.__qualname__,
        "python": "{}.{}".format(*sys.version_info[:2]),
        "torch": str(torch.__version__),
        "environment": os.environ.get("SLICEWISE_ENVIRONMENT", ""),
    }


def is_own_hook(hook) -> bool:
    """Whether a hook is code of the handler: what it does besides its answer would happen on the slice, unseen."""
    return provenance.is_own(getattr(hook, "__module__", None) or type(hook).__module__)


def _module(module, torch):
    skeleton, table, names = package.skeleton_of(module, interception.plain)
    tensors = table.dense()
    hashes = [digest.of_tensor(payload.tensor_view(tensor)) for tensor in tensors]
    sources, values = shaking.sources_of(names)
    identity = digest.identity_of(
        module,
        os.environ.get("SLICEWISE_BUNDLE", ""),
        lambda tensor: _hash(table, hashes, tensor),
        interception.plain,
        values,
    )
    manifest = _common(torch, module)
    installed = sorted({name for name, _ in names if not provenance.is_own(name)})
    manifest.update(
        kind="module",
        digest=digest.of_identity(identity),
        identity=identity,
        hashes=hashes,
        tensor_bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        distributions=provenance.distributions(installed),
        modules=[name for name in installed if name.partition(".")[0] not in _ALWAYS],
        values=[[owner, name, tree.encode(value, None)] for owner, name, value in values],
    )
    return manifest, skeleton, sources, tensors, names, values


def _hash(table, hashes, tensor):
    index = table.record_of(tensor)
    return digest.of_tensor(payload.tensor_view(payload.plain(tensor))) if index is None else hashes[index]


# Present in every worker: nothing to import before the skeleton is read.
_ALWAYS = ("torch", "builtins", "collections", "copyreg", "functools", "_codecs", "numpy", "__main__")


def _script(module, torch):
    file = io.BytesIO()
    try:
        torch.jit.save(module, file)
    except RuntimeError as error:
        raise SlicewiseError("not_carried", "Slicewise cannot save this TorchScript model: {}".format(error)) from error
    archive = file.getvalue()
    training = bool(getattr(module, "training", False))  # a frozen one has no mode
    identity = digest.identity_of_archive(archive, training)
    manifest = _common(torch, module)
    manifest.update(
        kind="torchscript",
        digest=digest.of_identity(identity),
        identity=identity,
        hashes=[],
        training=training,
        tensor_bytes=sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values()),
        distributions=[],
        modules=[],
    )
    return manifest, archive, b"", [], (), ()


def _exported(module, program, torch):
    """An ExportedProgram's module: its hooks are closures, so the program itself is carried."""
    file = io.BytesIO()
    torch.export.save(program, file)
    tensors = {**program.state_dict, **program.constants}
    form = [program.graph_module.code, str(program.graph_signature), str(program.range_constraints)]
    hashes = [
        [name, str(tensor.dtype), list(tensor.shape), digest.of_tensor(payload.tensor_view(payload.plain(tensor)))]
        for name, tensor in sorted(tensors.items())
        if isinstance(tensor, torch.Tensor)
    ]
    identity = {"kind": "exported", "program": digest.of_identity([form, hashes])}
    manifest = _common(torch, module)
    manifest.update(
        kind="exported",
        digest=digest.of_identity(identity),
        identity=identity,
        hashes=[],
        tensor_bytes=sum(tensor.numel() * tensor.element_size() for tensor in program.state_dict.values()),
        distributions=[],
        modules=[],
    )
    return manifest, file.getvalue(), b"", [], (), ()


def _replace_weights(module, torch, found, script) -> None:
    def source(names):
        return calls.read(found, names)

    made = {}
    for path, part in module.named_modules():
        for group in ("_parameters", "_buffers"):
            for name, tensor in list(getattr(part, group).items()):
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    full = "{}.{}".format(path, name) if path else name
                    made[id(tensor)] = (tensor, _stand_in(torch, tensor, source, full, group == "_parameters"))
                _put(part, group, name, made[id(tensor)][1], script)


def _stand_in(torch, tensor, source, name, parameter):
    wrapped = remote.wrap(tensor, source, name)
    if parameter:
        wrapped.requires_grad_(tensor.requires_grad)
        wrapped._is_param = True
    return wrapped


def _put(part, group, name, tensor, script) -> None:
    if script:
        part._c.setattr(name, tensor)
    else:
        getattr(part, group)[name] = tensor


def restore(module) -> None:
    """Bring the weights of a registered model back into this process."""
    torch = sys.modules["torch"]
    script = isinstance(module, torch.jit.ScriptModule)
    values = interception.remote_values(module)
    for _, part in module.named_modules():
        for group in ("_parameters", "_buffers"):
            for name, tensor in list(getattr(part, group).items()):
                if id(tensor) in values:
                    _put(part, group, name, values[id(tensor)], script)
