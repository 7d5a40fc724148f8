"""One slice: which worker is loaded, which goes, and whose call runs now.

Events in, instructions out; no clock and no process in here. The live service carries the instructions
out on real processes, a simulator on a calendar.
"""

from __future__ import annotations

from gpu_manager.core import loading, outcomes, turns
from gpu_manager.core.board import Board, Bound, Call, Phase, Stage
from gpu_manager.core.events import (
    BindingOver,
    CallArrived,
    CallCancelled,
    CallDone,
    Event,
    Fetched,
    LoadFailed,
    Measured,
    ModelLoaded,
    Prepared,
    ResetDone,
    Tick,
    VictimsNamed,
    Wanted,
    WorkerGone,
)
from gpu_manager.core.instructions import Instruction
from gpu_manager.core.linger import linger_ns
from gpu_manager.core.memory import Sizes
from gpu_manager.core.refusing import fail_model
from proto.types.errors import SlicewiseError
from proto.types.slices import SHARED_POOL, CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus

MAX_WAITING = 1024
MAX_BINDINGS = 8192
MAX_ROUNDS = 16  # one event can set off only so many steps before time passes


class SliceCore:
    """The state machine of one slice. `overhead_bytes`: what a worker costs beside its models."""

    def __init__(self, spec: SliceSpec, overhead_bytes: int, max_waiting: int = MAX_WAITING) -> None:
        self.board = Board(spec, Sizes(spec.memory_bytes, overhead_bytes), max_waiting)
        self._seen_ns = 0

    def handle(self, event: Event, now: int) -> list[Instruction]:
        """What is to be done after `event` at `now` (ns, never falling)."""
        board = self.board
        self._seen_ns = now
        self._apply(event, now)
        for _ in range(MAX_ROUNDS):
            before = len(board.out)
            self._settle(now)
            turns.finish(board, now)
            # Between two turns no worker is in turn: a load that waits for a busy one gets its chance here.
            loading.pump(board, now)
            turns.begin(board, now)
            turns.restore(board)
            if len(board.out) == before:
                break
        out, board.out = board.out, []
        return [*board.limits(), *out]

    def _apply(self, event: Event, now: int) -> None:
        board = self.board
        match event:
            case Prepared():
                self._prepared(event, now)
            case CallArrived():
                self._arrived(event, now)
            case CallCancelled():
                call = board.calls.get(event.call)
                if call is not None and call.started_ns < 0:
                    board.forget(call)
            case BindingOver():
                turns.end_binding(board, event.binding, event.failure, now)
            case Fetched():
                self._fetched(event, now)
            case VictimsNamed():
                outcomes.victims_named(board, event, now)
            case ModelLoaded():
                outcomes.model_loaded(board, event, now)
            case LoadFailed():
                outcomes.load_failed(board, event, now)
            case CallDone():
                call = board.calls.get(event.call)
                if call is not None and call.started_ns >= 0:
                    self._done(call, event, now)
            case ResetDone():
                outcomes.reset_done(board, event)
            case Measured():
                outcomes.measured(board, event)
            case WorkerGone():
                outcomes.worker_gone(board, event, now)
            case Wanted():
                board.wanted = event.workers
            case Tick():
                pass

    def _prepared(self, event: Prepared, now: int) -> None:
        board = self.board
        for need in event.models:
            board.sizes.learn_tensors(need.digest, need.tensor_bytes)
        board.sizes.hint(event.worker, (need.digest for need in event.models), event.held_bytes)
        board.sizes.declare(event.worker, event.declared_bytes)
        known = board.bindings.get(event.binding)
        if known is not None:
            # Its call was here before its Prepare; what the scheduler knows of the function is news all the same.
            known.usual = event.usual
            return
        if event.binding in board.ended or len(board.bindings) >= MAX_BINDINGS:
            return
        planned = [need.digest for need in event.models]
        board.bindings[event.binding] = Bound(
            event.binding, event.worker, now, event.expires_ns, event.usual, event.batch, planned, board.next_order()
        )

    def _arrived(self, event: CallArrived, now: int) -> None:
        board = self.board
        bound = board.bindings.get(event.binding)
        worker = bound.worker if bound is not None else ""
        call = Call(event.call, event.binding, worker, event.model.digest, now, event.deadline_ns, event.batch)
        if bound is None or bound.ending:
            board.answer(call, SlicewiseError("binding_gone", "The binding of this call has ended."), now)
            return
        if bound.lost:
            board.answer(
                call,
                SlicewiseError("worker_died", f"The worker of {worker} died with what this invocation had made in it."),
                now,
            )
            return
        if sum(1 for _ in board.waiting()) >= board.max_waiting:
            board.answer(
                call,
                SlicewiseError("queue_full", f"Slice {board.spec.id} has {board.max_waiting} calls waiting.", 1.0),
                now,
            )
            return
        board.sizes.learn_tensors(event.model.digest, event.model.tensor_bytes)
        call.miss = bound.caused_load and not bound.used
        if event.model.digest not in bound.used:
            bound.used.append(event.model.digest)
        bound.open_calls += 1
        call.order = board.next_order()
        board.calls[call.id] = call

    def _done(self, call: Call, event: CallDone, now: int) -> None:
        worker = self.board.workers.get(call.worker)
        failure = event.failure
        if event.needed_bytes and worker is not None:
            needed, state = event.needed_bytes, event.state
            if outcomes.call_overran(self.board, call, worker, needed, now, state=state):
                return
            failure = outcomes.call_too_large(self.board, worker, needed)
        turns.done(self.board, call, event.state, failure, now, event.peak_bytes)

    def _fetched(self, event: Fetched, now: int) -> None:
        job = self.board.jobs.get(event.worker)
        if event.failure is not None:
            for digest in event.digests:
                fail_model(self.board, event.worker, digest, event.failure, now)
        if job is None:
            return
        job.fetching.difference_update(event.digests)
        if event.failure is None:
            job.fetched.update(event.digests)

    def _settle(self, now: int) -> None:
        """Deadlines and expiries that have come."""
        board = self.board
        for call in [c for c in board.calls.values() if c.deadline_ns <= now and not c.answered]:
            if call.started_ns >= 0:
                board.answer(call, SlicewiseError("deadline_in_call", "The model call did not end in time."), now)
                worker = board.workers[call.worker]
                board.kill(worker, "its call passed its deadline")
            elif board.loaded(call):
                text = f"The call waited for its turn on slice {board.spec.id} until its deadline."
                board.fail(call, SlicewiseError("deadline_in_queue", text), now)
            else:
                text = f"The model was not loaded on slice {board.spec.id} before the call's deadline."
                board.fail(call, SlicewiseError("deadline_in_load", text), now)
        for bound in [b for b in board.bindings.values() if b.expires_ns <= now and not b.open_calls]:
            turns.end_binding(board, bound.id, SlicewiseError("binding_gone", "The binding has expired."), now)

    def wakeup(self, now: int) -> int | None:
        """The next point in time at which something happens by itself; None: nothing will."""
        board = self.board
        seen = self._seen_ns  # what came due between that moment and `now` has not been acted on yet
        times = [call.deadline_ns for call in board.calls.values() if not call.answered]
        times += [bound.expires_ns for bound in board.bindings.values() if not bound.open_calls]
        turn = board.turn
        if turn is not None and not turn.running:
            times.append(turn.idle_since_ns + linger_ns(turn.usual))
        times += [job.not_before_ns for job in board.jobs.values() if job.not_before_ns > seen]
        if any(job.blocked for job in board.jobs.values()):
            times += [due for due in map(board.due_until, board.bindings.values()) if due > seen]
        return max(now, min(times)) if times else None

    def counts(self) -> dict[str, int]:
        """Running and waiting work, by kind; all 0 when nothing is under way."""
        board = self.board
        return {
            "bindings": len(board.bindings),
            "calls": len(board.calls),
            "loads": len(board.jobs),
            "turn": int(board.turn is not None),
            "slot": int(bool(board.slot)),
            "unloading": sum(worker.phase is Phase.UNLOADING for worker in board.workers.values()),
        }

    def report(self, sequence: int, pool: str = SHARED_POOL) -> SliceState:
        """The slice as others may see it; `last_used_ns` is on the caller's clock."""
        board = self.board
        turn = board.turn
        workers = []
        for worker in board.workers.values():
            status = WorkerStatus.READY if worker.models else WorkerStatus.LOADING
            if worker.phase is Phase.LOADING:
                status = WorkerStatus.LOADING
            elif turn is not None and turn.worker == worker.key:
                status = WorkerStatus.TURN
            if worker.phase is not Phase.UNLOADING:
                exclusive = worker.dirty_by if worker.dirty_by in board.bindings else ""
                workers.append(
                    CachedWorker(
                        worker.key, status, worker.charge, worker.last_used_ns, tuple(worker.models), exclusive
                    )
                )
        loading_now = any(job.stage is not Stage.WAITING for job in board.jobs.values())
        status_now = SliceStatus.BUSY if turn else SliceStatus.LOADING if loading_now else SliceStatus.IDLE
        return SliceState(
            spec=board.spec,
            sequence=sequence,
            pool=pool,
            status=status_now,
            free_bytes=board.uncharged_bytes(),
            workers=tuple(workers),
            bindings=tuple(board.bindings),
            turn=turn.binding if turn else "",
            turn_started_ns=turn.started_ns if turn else 0,
            waiting=tuple(dict.fromkeys(call.binding for call in board.waiting())),
        )
