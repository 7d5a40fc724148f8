"""What becomes of a load and of a worker, as the processes report it."""

from __future__ import annotations

from gpu_manager.core import loading, turns
from gpu_manager.core.board import Board, Call, Job, Phase, Stage, Worker
from gpu_manager.core.events import LoadFailed, Measured, ModelLoaded, ResetDone, VictimsNamed, WorkerGone
from gpu_manager.core.instructions import WorkerLoaded
from gpu_manager.core.refusing import drop_job, fail_job, fail_model
from proto.types.errors import SlicewiseError

MAX_OVERRUNS = 3  # of one call; each makes the reservation larger
MAX_DEATHS = 2  # of a worker in one load, before its callers are told


def _living(board: Board, key: str, incarnation: int) -> Worker | None:
    worker = board.workers.get(key)
    return worker if worker is not None and worker.incarnation == incarnation else None


def victims_named(board: Board, event: VictimsNamed, now: int) -> None:
    """The cache manager answered, or could not."""
    job = board.jobs.get(event.worker)
    if job is None or job.stage is not Stage.ASKING:
        return
    if event.failure is None:
        loading.named(board, job, event.victims, now)
    elif event.failure.code == "unavailable" or not loading.unnamed(board, job, now):
        fail_job(board, job, event.failure, now)


def model_loaded(board: Board, event: ModelLoaded, now: int) -> None:
    """One model more is in the worker; go on with the next, or let it serve."""
    worker = _living(board, event.worker, event.incarnation)
    job = board.jobs.get(event.worker)
    if worker is None or job is None or worker.phase is not Phase.LOADING:
        return
    worker.models.append(event.digest)
    if event.held_bytes > worker.charge + board.free_bytes():
        _overrun(board, job, worker, event.held_bytes, now)
        return
    worker.charge = max(worker.charge, event.held_bytes)
    if any(digest not in worker.models for digest in job.target):
        loading.next_model(board, job, worker, fresh=False)
        return
    # No other load may take what its own calls will need; it was reserved, so it never goes above the budget.
    worker.charge = min(worker.charge, board.sizes.settled(worker.key, worker.models, event.held_bytes))
    board.sizes.remember(worker.key, worker.models, event.held_bytes)
    worker.phase = Phase.READY
    worker.ready_ns = now
    worker.load_ns += now - job.started_ns
    drop_job(board, job)
    board.out.append(WorkerLoaded(worker.key, now - job.began_ns, event.held_bytes, evicted=tuple(job.evicted)))


def load_failed(board: Board, event: LoadFailed, now: int) -> None:
    """A model could not be loaded: too large for its reservation, or broken."""
    worker = _living(board, event.worker, event.incarnation)
    job = board.jobs.get(event.worker)
    if worker is None or job is None or worker.phase is not Phase.LOADING:
        return
    if event.needed_bytes:
        worker.models.append(event.digest)
        _overrun(board, job, worker, event.needed_bytes, now)
        return
    fail_model(board, worker.key, event.digest, event.failure, now)
    _leave(board, job, worker, now, "a load failed in it")
    drop_job(board, job)
    board.out.append(WorkerLoaded(worker.key, now - job.began_ns, 0, event.failure, tuple(job.evicted)))


def _overrun(board: Board, job: Job, worker: Worker, needed: int, now: int) -> None:
    """Remember the true size and begin again with it."""
    _learn(board, job, worker, needed)
    board.kill(worker, f"it needs {needed} bytes, {worker.charge} were reserved")
    board.slot = ""
    job.stage = Stage.WAITING
    _lose_state(board, worker)


def _learn(board: Board, job: Job, worker: Worker, needed: int) -> None:
    reserve = board.sizes.after_overrun(worker.charge, needed)
    board.sizes.overran(worker.key, worker.models, reserve)
    board.sizes.overran(worker.key, job.target, reserve)


def _leave(board: Board, job: Job, worker: Worker, now: int, reason: str) -> None:
    """A worker whose load failed: keep it only for an invocation that has its state in it."""
    if worker.dirty_by in board.bindings:
        worker.phase = Phase.READY
        worker.ready_ns = now
        worker.charge = job.charged_before
    else:
        board.kill(worker, reason)


def _lose_state(board: Board, worker: Worker) -> None:
    bound = board.bindings.get(worker.dirty_by)
    if bound is not None and bound.changed:
        bound.lost = True


def worker_gone(board: Board, event: WorkerGone, now: int) -> None:
    """The process has been reaped. Whoever needs it again gets a load, except those whose state it held."""
    worker = _living(board, event.worker, event.incarnation)
    if worker is None:
        return
    _lose_state(board, worker)
    del board.workers[worker.key]
    over = event.over_limit and worker.phase is not Phase.UNLOADING
    died = SlicewiseError("worker_died", f"The worker of {worker.key} on slice {board.spec.id} died: {event.why}.")
    call = board.calls.get(worker.running)
    if call is not None and not (over and call_overran(board, call, worker, 0, now)):
        board.answer(call, call_too_large(board, worker, 0) if over else died, now)
        turns.stop(board, call, now)
        bound = board.bindings.get(call.binding)
        if bound is not None and bound.ending and not bound.open_calls:
            turns.end_binding(board, bound.id, bound.end_failure, now)
    for waiting in [c for c in board.waiting() if c.worker == worker.key]:
        bound = board.bindings.get(waiting.binding)
        if bound is not None and bound.lost:
            board.fail(waiting, died, now)
    job = board.jobs.get(worker.key)
    if job is None or job.stage is not Stage.LOADING:
        return
    board.slot = ""
    job.stage = Stage.WAITING
    if over:
        _learn(board, job, worker, 0)
        return
    job.deaths += 1
    if job.deaths >= MAX_DEATHS:
        fail_job(board, job, died, now)


def call_too_large(board: Board, worker: Worker, needed: int) -> SlicewiseError:
    """What the caller is told of a call that passed its worker's limit and cannot have more."""
    spec, limit = board.spec, worker.charge + worker.lent
    wanted = f"{needed} bytes" if needed > limit + 1 else f"more than {limit} bytes"
    text = f"A call of {worker.key} needs {wanted}, its model included; slice {board.spec.id} has {spec.memory_bytes}"
    if limit < spec.memory_bytes and needed <= spec.memory_bytes:
        text += ", but this invocation has changed its model, and would lose that if it ran elsewhere"
    return SlicewiseError("model_too_large", f"{text}.")


def call_overran(board: Board, call: Call, worker: Worker, needed: int, now: int, *, state: bool = False) -> bool:
    """A call passed its worker's limit: have it run again with more room. False: it cannot.

    `needed`: what it would have taken, 0 if nobody can say; `state`: it has changed the worker.
    """
    bound = board.bindings.get(call.binding)
    if worker.phase is Phase.UNLOADING or bound is None or call.answered:
        return False
    limit = worker.charge + worker.lent
    reserve = board.sizes.after_overrun(limit, needed)
    call.overruns += 1
    if reserve > board.spec.memory_bytes:
        return False
    if bound.changed or bound.ending or call.overruns > MAX_OVERRUNS:
        board.sizes.called(worker.key, worker.models, reserve)
        worker.overgrown = True  # whoever comes next finds room
        return False
    call.needs = reserve
    call.started_ns = -1
    worker.running = worker.lent = 0
    if board.turn is not None and board.turn.running == call.id:
        board.turn.running = 0
        board.turn.idle_since_ns = now
    if state:
        board.sizes.overran(worker.key, worker.models, reserve)
        board.kill(worker, f"a call needs {reserve} bytes, {limit} were there, and it has changed its model")
    elif worker.key not in board.workers:
        board.sizes.overran(worker.key, worker.models, reserve)
    return True


def reset_done(board: Board, event: ResetDone) -> None:
    """The next binding may use the worker, or it has to go."""
    worker = _living(board, event.worker, event.incarnation)
    if worker is None or worker.phase is not Phase.RESETTING:
        return
    if event.ok:
        worker.dirty_by = ""
        worker.phase = Phase.READY
    else:
        board.kill(worker, "its state could not be restored")


def measured(board: Board, event: Measured) -> None:
    """A worker's bytes have changed while it served."""
    worker = _living(board, event.worker, event.incarnation)
    if worker is None or worker.phase is not Phase.READY:
        return
    if worker.running:
        return  # measured again after its turn
    spare = board.free_bytes()
    if event.held_bytes > worker.charge + spare and board.slot:
        return  # a load has all the room for the moment; measured again after the next turn
    if event.held_bytes <= worker.charge + spare:
        needed = max(event.held_bytes, board.sizes.calls_need(worker.key, worker.models))
        worker.charge = min(needed, worker.charge + spare)
        worker.overgrown = False
    else:
        # Nothing more is let in, and the worker starts again at its true size when nobody needs it.
        worker.charge += spare
        worker.overgrown = True
    held = min(event.held_bytes, board.spec.memory_bytes)
    board.sizes.served(worker.key, worker.models, held)
    board.sizes.remember(worker.key, worker.models, held)
