"""From what happened to what is wrong: each finding with its error, the handler's own lines, and the way out."""

from __future__ import annotations

from dataclasses import dataclass, field

from functions.service.bundles import Image
from slicewise.checking import advice, comparing, tracebacks
from slicewise.checking.tracebacks import Frame, Raised
from slicewise.checking.trial import Trial

_SHOWN = 500


@dataclass(frozen=True)
class Finding:
    """`stage` is import, call, model call, memory, output or interposition; what does not `fail` is worth knowing."""

    stage: str
    error: str
    fix: str = ""
    fails: bool = True
    frames: list[Frame] = field(default_factory=list)


def all_of(trial: Trial) -> list[Finding]:
    """Everything that is wrong with a handler, the first cause first."""
    if trial.why:
        return [_not_ready(trial), *_worth_knowing(trial)]
    found = [*_interposition(trial), *_calls(trial), *_model_calls(trial)]
    if not found:
        found += _outputs(trial)
    return [*found, *_worth_knowing(trial)]


def refusal(trial: Trial) -> str:
    """The code with which the platform refused a call or a registration, "" if it refused none."""
    raised = tracebacks.find(trial.log, trial.bundle) if trial.why else []
    if raised and raised[-1].kind.endswith("SlicewiseError") and advice.too_large(raised[-1].text):
        return advice.TOO_LARGE
    codes = [answer.headers.get("x-slicewise-error", "") for answer in trial.answers]
    return next((code for code in codes if code), "")


def _not_ready(trial: Trial) -> Finding:
    raised = tracebacks.find(trial.log, trial.bundle)
    if raised:
        return _raised(_stage("import", refusal(trial)), raised[-1], trial)
    if "has not said hello" in trial.why:
        return Finding("interposition", trial.why, advice.NOT_INTERPOSED)
    return Finding("import", trial.why)


def _raised(stage: str, raised: Raised, trial: Trial) -> Finding:
    name = raised.kind.rpartition(".")[2]
    error = advice.carried(raised.text)[0] if name == "SlicewiseError" else f"{name}: {raised.text}".rstrip(": ")
    fix = advice.of_exception(raised.kind, raised.text, trial.bundle)
    if not fix and _fails_locally(trial):
        fix = "It fails without Slicewise as well: see the lines above."
    return Finding(stage, error, fix, frames=raised.own_frames)


def _stage(stage: str, code: str) -> str:
    return "memory" if code == advice.TOO_LARGE else stage


def _fails_locally(trial: Trial) -> bool:
    return bool(trial.local.error) or any(answer.status >= 500 for answer in trial.local.answers)


def _interposition(trial: Trial) -> list[Finding]:
    if not trial.report or trial.report.get("greeted"):
        return []
    return [Finding("interposition", _why_not_interposed(trial.image), advice.NOT_INTERPOSED)]


def _why_not_interposed(image: Image) -> str:
    words = image.fprocess.split()
    flags = [word for word in words if word.startswith("-") and set(word[1:]) & set("IES") and word[1:].isalpha()]
    what = f"python started with {' '.join(flags)}" if flags else "the process has not said hello to Slicewise"
    return f"Not interposed: {what}, so its calls to torch stay in it and fail or run there."


def _calls(trial: Trial) -> list[Finding]:
    bad = [answer for answer in trial.answers if answer.status >= 400]
    if not bad:
        return []
    answer, code = bad[0], refusal(trial)
    many = f"{len(bad)} of {len(trial.answers)} calls: " if len(bad) < len(trial.answers) else ""
    said = answer.body.decode(errors="replace").strip()[:_SHOWN]
    raised = tracebacks.find(trial.log, trial.bundle)
    if answer.status >= 500 and raised:
        found = _raised("call", raised[-1], trial)
        if code:  # what the platform said came through the handler as an exception
            fix = found.fix or advice.of_code(code)
            return [Finding(_stage("call", code), f"{many}{said}", fix, frames=found.frames)]
        return [Finding("call", many + found.error, found.fix, frames=found.frames)]
    if code:
        return [Finding(_stage("call", code), many + said, advice.of_code(code))]
    if answer.status < 500:
        fix = "Give it a request that it accepts, with --input FILE and --header."
        return [Finding("call", f"{many}The handler answers {answer.status}: {said}", fix)]
    return [Finding("call", f"{many}The handler answers {answer.status}: {said}")]


def _model_calls(trial: Trial) -> list[Finding]:
    """Calls that failed though the handler's answer does not show it."""
    if any(answer.status >= 400 for answer in trial.answers):
        return []
    found = []
    for call in trial.report.get("calls", ()):
        if call["failed"]:
            error = call["error"] or {}
            text = f"{call['failed']} of {call['count']} calls of {call['method']}: {error.get('message', '')}"
            fix = advice.of_code(str(error.get("code", ""))) or "The handler went on without its answer."
            found.append(Finding("model call", text, fix))
    return found


def _outputs(trial: Trial) -> list[Finding]:
    different = first_difference(trial)
    if not different:
        return []
    fix = "Look for what differs there: an environment variable, the time, a file, the state of the model."
    if _wavering(trial):
        fix = "The local run's own answers differ from call to call: fix its random seed, or compare by hand."
    return [Finding("output", f"The answer is not that of a local run. {different}", fix)]


def first_difference(trial: Trial) -> str:
    """The first difference between the answers here and there, call by call."""
    for number, (here, there) in enumerate(zip(trial.local.answers, trial.answers, strict=False), 1):
        different = comparing.difference(here, there)
        if different:
            return f"Call {number}, {different}."
    return ""


def _wavering(trial: Trial) -> bool:
    answers = trial.local.answers
    return any(comparing.difference(answers[0], other) for other in answers[1:])


def _worth_knowing(trial: Trial) -> list[Finding]:
    found = []
    where = advice.imports_tensorflow(trial.bundle)
    if where and not trial.why:
        found.append(
            Finding("interposition", f"{where} imports TensorFlow, which does not run on slices.", advice.KERAS)
        )
    environment = {**trial.image.environment, **trial.request.environment}
    keras = advice.keras_without_backend(trial.bundle, environment)
    if keras and not trial.why:
        text = f"{keras} imports Keras without choosing its torch backend."
        found.append(Finding("interposition", text, advice.KERAS, fails=False))
    if trial.why or not trial.report:
        return found
    if trial.local.why and not trial.local.answers:
        found.append(
            Finding("output", f"Its answers were not compared with a local run: {trial.local.why}.", fails=False)
        )
    if trial.remark and trial.report.get("greeted"):
        found.append(Finding("interposition", trial.remark, fails=False))
    models = trial.report.get("models", ())
    called = {call["model"] for call in trial.report.get("calls", ())}
    if not models and trial.report.get("greeted"):
        text = "No model was found, so nothing runs on a slice: everything is computed in the function's own process."
        fix = 'Move the model at import: `model.to("cuda")` (torch.nn.Module, TorchScript, or Keras on torch).'
        found.append(Finding("interposition", text, fix, fails=False))
    for model in models:
        if model["digest"] not in called:
            text = f"{model['class_name']} ({model['digest'][:12]}) was moved to cuda and never called."
            fix = "It takes room on the slice all the same: leave it on the CPU, or do not make it."
            found.append(Finding("model call", text, fix, fails=False))
    return found
