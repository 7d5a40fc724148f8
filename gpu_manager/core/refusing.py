"""Giving up on a load: who is told, and what is forgotten."""

from __future__ import annotations

from gpu_manager.core.board import Board, Job
from gpu_manager.core.instructions import WorkerLoaded
from proto.types.errors import SlicewiseError


def drop_job(board: Board, job: Job) -> None:
    """Want this load no more; the load slot is free again."""
    if board.slot == job.worker:
        board.slot = ""
    board.jobs.pop(job.worker, None)


def fail_model(board: Board, worker: str, digest: str, failure: SlicewiseError, now: int) -> None:
    """This model cannot be had: its waiting calls fail, and no binding expects it any more."""
    for call in [c for c in board.waiting() if c.worker == worker and c.digest == digest and not board.loaded(c)]:
        board.fail(call, failure, now)
    held = board.workers[worker].models if worker in board.workers else []
    for bound in board.bindings.values():
        if bound.worker != worker:
            continue
        if digest in bound.planned:
            bound.planned.remove(digest)
        if digest in bound.used and digest not in held:
            bound.used.remove(digest)  # else it would be wanted again with every other load of this worker


def fail_job(board: Board, job: Job, failure: SlicewiseError, now: int) -> None:
    """Nothing that this load was to bring can be had now."""
    wanted = [call.digest for call in board.waiting() if call.worker == job.worker and not board.loaded(call)]
    planned = [d for bound in board.bindings.values() if bound.worker == job.worker for d in bound.planned]
    for digest in dict.fromkeys([*wanted, *planned]):
        fail_model(board, job.worker, digest, failure, now)
    drop_job(board, job)
    board.out.append(WorkerLoaded(job.worker, 0, 0, failure))


def refuse_too_large(board: Board, job: Job, size: int, now: int) -> None:
    """The models of one invocation do not fit this slice; who asked is told both sizes."""
    failure = SlicewiseError(
        "model_too_large",
        f"The models of {job.worker} need {size} bytes together; slice {board.spec.id} has {board.spec.memory_bytes}.",
    )
    first = next((c for c in board.waiting() if c.worker == job.worker and not board.loaded(c)), None)
    if first is None:
        fail_job(board, job, failure, now)
        return
    for call in [c for c in board.waiting() if c.binding == first.binding and not board.loaded(c)]:
        board.fail(call, failure, now)
    bound = board.bindings.get(first.binding)
    if bound is not None:
        bound.planned.clear()
    drop_job(board, job)
    board.out.append(WorkerLoaded(job.worker, 0, 0, failure))
