"""How models come onto the slice: one load at a time, never a byte above the budget.

A load waits for its packages, then for the load slot, then for room; room is made by exactly the
workers that the cache manager names. Loads are served in the order in which they were wanted; one that
cannot get room now is passed by those that can. What a load may not touch: workers that load or are
in turn, that a living invocation has changed, and those whose call waits or is due since before
the load was wanted (a later call does not protect, or a busy worker would never go).
"""

from __future__ import annotations

from gpu_manager.core.board import Board, Bound, Call, Job, Phase, Stage, Worker
from gpu_manager.core.instructions import AskVictims, Fetch, Load
from gpu_manager.core.linger import MS
from gpu_manager.core.refusing import drop_job, refuse_too_large

ASK_AGAIN_NS = 20 * MS  # the named victims were taken into use in the meantime
ASK_FAILED_NS = 100 * MS
MAX_FAILED_ASKS = 5


def want(board: Board, now: int) -> None:
    """See that every model which a waiting call needs, or a new binding is expected to, has a load."""
    for call in list(board.waiting()):
        if board.loaded(call):
            _outgrown(board, call)
            continue
        worker = board.workers.get(call.worker)
        if worker is not None and worker.phase is Phase.LOADING:
            continue  # looked at again when that load is over
        job = board.jobs.get(call.worker)
        if job is None:
            board.jobs[call.worker] = Job(call.worker, call.order, call.binding)
            call.miss = True
    for bound in board.bindings.values():
        if bound.used or bound.ending or not bound.planned or bound.worker in board.jobs:
            continue
        if bound.worker not in board.workers and not bound.caused_load:
            bound.caused_load = True
            board.jobs[bound.worker] = Job(bound.worker, bound.order, bound.id)


def _outgrown(board: Board, call: Call) -> None:
    """A worker without the room that a call of it needs starts again in a larger one, if no load gives it back."""
    worker = board.workers[call.worker]
    room = worker.charge + board.coming_bytes()
    if call.needs <= room or board.slot or worker.phase is not Phase.READY or worker.running or worker.dirty_by:
        return
    board.sizes.overran(worker.key, worker.models, call.needs)
    board.kill(worker, f"a call needs {call.needs} bytes, there is room for {room}")


def pump(board: Board, now: int) -> None:
    """Carry every load as far as it can go at this moment."""
    want(board, now)
    for job in sorted(board.jobs.values(), key=lambda job: job.order):
        if job.stage is not Stage.LOADING and not _wanted(board, job):
            drop_job(board, job)
        elif job.stage is Stage.EVICTING:
            _evict(board, job, now)
        elif job.stage is Stage.WAITING:
            _admit(board, job, now)
    _tidy(board)


def _tidy(board: Board) -> None:
    """End idle workers that hold too much, and those of deleted functions and old revisions."""
    bound = {binding.worker for binding in board.bindings.values()}
    for worker in list(board.workers.values()):
        if worker.phase is not Phase.READY or _in_turn(board, worker):
            continue
        if worker.overgrown and not worker.dirty_by:
            board.kill(worker, "it holds more than was reserved for it")
        elif board.wanted is not None and worker.key not in board.wanted and worker.key not in bound:
            board.kill(worker, "no deployed function has this revision any more")


def _wanted(board: Board, job: Job) -> bool:
    if any(call.worker == job.worker and not board.loaded(call) for call in board.waiting()):
        return True
    return any(
        bound.worker == job.worker and not bound.ending and not bound.used and bound.planned
        for bound in board.bindings.values()
    )


def _in_turn(board: Board, worker: Worker) -> bool:
    return bool(worker.running) or (board.turn is not None and board.turn.worker == worker.key)


def target(board: Board, job: Job, held: list[str]) -> list[str]:
    """The models that the worker shall hold after the load: what it has, what is called, what is expected."""
    wanted = [call.digest for call in board.waiting() if call.worker == job.worker]
    if job.only:
        return list(dict.fromkeys([*job.only, *held]))
    for bound in board.bindings.values():
        if bound.worker == job.worker and not bound.ending:
            wanted += bound.used + bound.planned
    return list(dict.fromkeys([*held, *wanted]))


def _smallest(board: Board, job: Job) -> list[str]:
    """The models of the present invocation only."""
    call = next((c for c in board.waiting() if c.worker == job.worker and not board.loaded(c)), None)
    bound = board.bindings.get(call.binding if call is not None else job.binding)
    if call is not None:
        return list(dict.fromkeys([*(bound.used if bound else []), call.digest]))
    planned = bound.planned if bound is not None else []
    if not planned:
        planned = next(b.planned for b in board.bindings.values() if b.worker == job.worker and b.planned)
    return planned[:1]


def _admit(board: Board, job: Job, now: int) -> None:
    job.blocked = False
    worker = board.workers.get(job.worker)
    if now < job.not_before_ns or (worker is not None and worker.phase is not Phase.READY):
        return
    held = worker.models if worker is not None else []
    charge = worker.charge if worker is not None else 0
    wanted = target(board, job, held)
    size = board.sizes.grown(job.worker, wanted, held, charge)
    if size > board.spec.memory_bytes:
        smallest = _smallest(board, job)
        least = board.sizes.estimate(job.worker, smallest)
        if least > board.spec.memory_bytes:
            refuse_too_large(board, job, least, now)
            return
        if worker is not None and not set(held) <= set(smallest):
            _restart(board, job, worker, smallest, size, now)
            return
        wanted, size = smallest, board.sizes.grown(job.worker, smallest, held, charge)
    if not _packages_here(board, job, [digest for digest in wanted if digest not in held]):
        return
    if board.slot or (worker is not None and worker.running):
        return
    job.target = wanted
    job.reserved = size
    _make_room(board, job, size - charge, now)


def _packages_here(board: Board, job: Job, digests: list[str]) -> bool:
    missing = [digest for digest in digests if digest not in job.fetched]
    fresh = [digest for digest in missing if digest not in job.fetching]
    if fresh:
        job.fetching.update(fresh)
        board.out.append(Fetch(job.worker, tuple(fresh), "a load wants them"))
    return not missing


def _restart(board: Board, job: Job, worker: Worker, only: list[str], size: int, now: int) -> None:
    """End a worker that would outgrow its slice, to start again with the present invocation's models."""
    if _in_turn(board, worker) or any(
        call.worker == worker.key and call.order <= job.order and board.loaded(call) for call in board.waiting()
    ):
        return
    if worker.dirty_by:
        caller = next((c for c in board.waiting() if c.worker == worker.key and not board.loaded(c)), None)
        if caller is not None and caller.binding == worker.dirty_by:
            refuse_too_large(board, job, size, now)  # starting again would lose the invocation's own state
        return
    job.only = only
    board.kill(worker, "with one more model it would outgrow its slice")


def _make_room(board: Board, job: Job, need: int, now: int) -> None:
    free = board.free_bytes()
    if need <= free:
        _start(board, job, now)
        return
    never = protected(board, job, now)
    leaving = [worker for worker in board.workers.values() if worker.phase is Phase.UNLOADING]
    coming = board.coming_bytes()
    evictable = sum(w.charge for w in board.workers.values() if w not in leaving and w.key not in never)
    if coming >= need:
        return  # those that are on their way out make the room, or the call that was lent it
    if coming + evictable < need:
        job.blocked = True
        return
    board.slot = job.worker
    job.stage = Stage.ASKING
    job.began_ns = now
    names = tuple(dict.fromkeys((*never, *(worker.key for worker in leaving))))
    board.out.append(
        AskVictims(job.worker, need + board.uncharged_bytes() - coming, names, f"{need} bytes are needed, {free} free")
    )


def protected(board: Board, job: Job, now: int) -> tuple[str, ...]:
    """Workers that may not go for this load, in LRU order."""
    waiting = {call.worker for call in board.waiting() if call.order <= job.order}
    due = {
        bound.worker
        for bound in board.bindings.values()
        if bound.order <= job.order and not bound.open_calls and now < board.due_until(bound)
    }
    return tuple(
        worker.key
        for worker in board.workers.values()
        if worker.key == job.worker
        or worker.phase is Phase.LOADING
        or _in_turn(board, worker)
        or worker.dirty_by in board.bindings
        or worker.key in waiting
        or worker.key in due
    )


def named(board: Board, job: Job, victims: tuple[str, ...], now: int) -> None:
    """The cache manager has answered: take its victims if they may still go, and no more than needed."""
    job.victims = []
    never = set(protected(board, job, now))
    if board.turn is not None:
        turn_worker = board.workers.get(board.turn.worker)
        # A victim whose turn began after we asked goes when that turn is over.
        if turn_worker is not None and turn_worker.key in victims and turn_worker.dirty_by not in board.bindings:
            never.discard(turn_worker.key)
    room = board.coming_bytes()
    need = _need(board, job)
    for key in victims:
        worker = board.workers.get(key)
        if room >= need:
            break
        if worker is None or worker.phase is Phase.UNLOADING or key in never:
            continue
        job.victims.append(key)
        room += worker.charge
    if room < need:
        _again(board, job, now + ASK_AGAIN_NS)
        return
    job.stage = Stage.EVICTING


def unnamed(board: Board, job: Job, now: int) -> bool:
    """The cache manager could not answer; False when it was asked often enough."""
    job.asks += 1
    _again(board, job, now + ASK_FAILED_NS)
    return job.asks < MAX_FAILED_ASKS


def _again(board: Board, job: Job, not_before: int) -> None:
    job.stage = Stage.WAITING
    job.victims = []
    job.not_before_ns = not_before
    board.slot = ""


def _need(board: Board, job: Job) -> int:
    worker = board.workers.get(job.worker)
    return job.reserved - (worker.charge if worker is not None else 0)


def _evict(board: Board, job: Job, now: int) -> None:
    own = board.workers.get(job.worker)
    if own is not None and (own.phase is not Phase.READY or own.running):
        if own.phase is Phase.UNLOADING:
            _again(board, job, now)
        return
    if _need(board, job) <= board.free_bytes():
        _start(board, job, now)
        return
    job.victims = [key for key in job.victims if key in board.workers]
    for key in job.victims:
        worker = board.workers[key]
        if worker.phase in (Phase.UNLOADING, Phase.LOADING) or _in_turn(board, worker):
            continue
        if worker.dirty_by in board.bindings:
            _again(board, job, now + ASK_AGAIN_NS)  # it became a living invocation's own
            return
        board.kill(worker, f"evicted for {job.worker}", evicted=True)
        job.evicted.append(key)
    if not job.victims and _need(board, job) > board.coming_bytes():
        _again(board, job, now + ASK_AGAIN_NS)


def _start(board: Board, job: Job, now: int) -> None:
    if job.stage is Stage.WAITING:
        job.began_ns = now
    board.slot = job.worker
    job.stage = Stage.LOADING
    job.started_ns = now
    job.victims = []
    worker = board.workers.get(job.worker)
    fresh = worker is None
    if worker is None:
        board.incarnations += 1
        worker = Worker(job.worker, board.incarnations, job.reserved, now)
        board.workers[job.worker] = worker
    worker.phase = Phase.LOADING
    # Nothing else may use the room that is free while this load runs, so the load may: what it did not need is
    # given back when it is measured, and an estimate that was too low costs no second load.
    job.charged_before = 0 if fresh else worker.charge
    worker.charge = max(worker.charge, job.reserved)
    if not board.sizes.is_declared(worker.key):
        worker.charge += board.free_bytes()
    worker.load_began_ns = job.began_ns
    worker.ready_ns = 0
    board.workers.move_to_end(job.worker)
    next_model(board, job, worker, fresh)


def next_model(board: Board, job: Job, worker: Worker, fresh: bool) -> None:
    """Order the load of the next model that the worker still lacks."""
    digest = next(d for d in job.target if d not in worker.models)
    reason = f"model {1 + len(worker.models)} of {len(job.target)}"
    board.out.append(Load(worker.key, worker.incarnation, digest, worker.charge, fresh, _for_whom(board, job), reason))


def _for_whom(board: Board, job: Job) -> str:
    if job.binding in board.bindings:
        return job.binding
    of_worker: list[Bound] = [bound for bound in board.bindings.values() if bound.worker == job.worker]
    return of_worker[0].id if of_worker else job.binding
