"""Who occupies the slice: one turn at a time, first come first served by the arrival of calls.

A turn is a binding's; it ends with the invocation, or when no further call has come for `linger`. An
invocation that has made its usual number of calls does not keep others waiting.
"""

from __future__ import annotations

from gpu_manager.core.board import Board, Call, Phase, Turn, Worker
from gpu_manager.core.instructions import BindingDropped, Reset, Run, TurnBegan, TurnOver
from gpu_manager.core.linger import MS, linger_ns, usual_reached
from proto.types.errors import SlicewiseError

# A binding that was made at most so long after the slice fell free is the scheduler's answer to that; the
# time between the two is then its hand-over, and not a slice that nobody wanted.
HANDOVER_WINDOW_NS = 50 * MS
# Calls differ: beside the most that any was seen to need, one is lent these parts of that and of the slice. The rest
# stays free for a load that wants to begin meanwhile.
LENT_OF_NEED = 4
LENT_OF_SLICE = 16


def finish(board: Board, now: int) -> None:
    """End the turn if it is over by now."""
    turn = board.turn
    if turn is None or turn.running:
        return
    reason = _why_over(board, turn, now)
    if not reason:
        return
    board.turn = None
    board.last_turn_end_ns = now
    board.out.append(
        TurnOver(
            turn.binding,
            turn.worker,
            turn.calls,
            turn.infer_ns,
            turn.batch,
            turn.handover_ns,
            now - turn.started_ns,
            reason,
        )
    )


def _why_over(board: Board, turn: Turn, now: int) -> str:
    bound = board.bindings.get(turn.binding)
    if bound is None or bound.ending:
        return "the invocation ended"
    worker = board.workers.get(turn.worker)
    if worker is None or worker.phase is Phase.UNLOADING:
        return "the worker is gone"
    reached = usual_reached(turn.usual, bound.calls)
    own = others = False
    for call in board.waiting():
        if call.binding == turn.binding:
            own = own or board.runnable(call)
        else:
            others = others or board.runnable(call)
    others = others or board.condemned(turn.worker)
    if reached and others:
        return "it has made its usual calls and others wait"
    if own:
        return ""
    if reached and not turn.usual.between_ns:
        return "it has made its usual calls"
    if now >= turn.idle_since_ns + linger_ns(turn.usual):
        return "no further call came"
    return ""


def begin(board: Board, now: int) -> None:
    """Start the next call: of the turn if there is one, else of a new turn."""
    turn = board.turn
    if turn is not None:
        if not turn.running:
            call = next((c for c in board.waiting() if c.binding == turn.binding and board.runnable(c)), None)
            if call is not None:
                _run(board, turn, call, now, "its turn goes on")
        return
    call = next((c for c in board.waiting() if board.runnable(c) and not board.condemned(c.worker)), None)
    if call is None:
        return
    bound = board.bindings[call.binding]
    ended = board.last_turn_end_ns
    waited = ended > 0 and call.arrived_ns <= ended
    handover = 0
    if ended and not call.miss and bound.prepared_ns <= ended + HANDOVER_WINDOW_NS:
        handover = max(1, now - ended)
    turn = Turn(call.binding, call.worker, now, handover, bound.batch or call.batch, bound.usual)
    board.turn = turn
    board.out.append(TurnBegan(call.binding, not call.miss, now - ended if waited and not call.miss else -1))
    _run(board, turn, call, now, "the oldest call whose model is here")


def _run(board: Board, turn: Turn, call: Call, now: int, reason: str) -> None:
    worker = board.workers[call.worker]
    call.load_ns = board.load_share(call, now)
    call.started_ns = now
    turn.running = worker.running = call.id
    worker.lent = _lend(board, worker, call)
    worker.last_used_ns = now
    board.workers.move_to_end(worker.key)
    board.out.append(Run(call.id, worker.key, worker.incarnation, reason))


def _lend(board: Board, worker: Worker, call: Call) -> int:
    """Bytes beside its charge that the worker may touch in this call, of those that no load has taken."""
    if board.sizes.is_declared(worker.key):
        return 0
    known = board.sizes.calls_need(worker.key, worker.models)
    bound = board.bindings.get(call.binding)
    if not known or call.needs or bound is None or bound.changed:
        return board.free_bytes()  # nobody knows what it needs, or it could not be repeated with more
    return min(board.free_bytes(), known // LENT_OF_NEED + board.spec.memory_bytes // LENT_OF_SLICE)


def done(board: Board, call: Call, state: bool, failure: SlicewiseError | None, now: int, peak_bytes: int = 0) -> None:
    """The worker has answered the call that it ran."""
    worker = board.workers.get(call.worker)
    if worker is not None and peak_bytes:
        _keep_room(board, worker, peak_bytes)
    bound = board.bindings.get(call.binding)
    if state and worker is not None and worker.phase is not Phase.UNLOADING:
        worker.dirty_by = call.binding
        if bound is not None:
            bound.changed = True
    board.answer(call, failure, now, state=state)
    stop(board, call, now)
    if bound is not None:
        bound.calls += 1
        bound.last_call_ns = now
        if bound.ending and not bound.open_calls:
            end_binding(board, bound.id, bound.end_failure, now)


def _keep_room(board: Board, worker: Worker, peak_bytes: int) -> None:
    """Calls of this worker need so much: from now on it is charged for it."""
    if worker.phase is not Phase.READY or board.sizes.is_declared(worker.key):
        return
    board.sizes.called(worker.key, worker.models, min(peak_bytes, worker.charge + worker.lent))
    needed = board.sizes.calls_need(worker.key, worker.models)
    if needed > worker.charge:
        grown = min(needed - worker.charge, worker.lent + board.free_bytes())
        worker.lent = max(0, worker.lent - grown)
        worker.charge += grown


def stop(board: Board, call: Call, now: int) -> None:
    """The call runs no more, however it went."""
    worker = board.workers.get(call.worker)
    if worker is not None and worker.running == call.id:
        worker.running = 0
        worker.lent = 0
    turn = board.turn
    if turn is not None and turn.running == call.id:
        turn.running = 0
        turn.calls += 1
        turn.infer_ns += now - call.started_ns
        turn.idle_since_ns = now
    board.forget(call)


def end_binding(board: Board, binding: str, failure: SlicewiseError | None, now: int) -> None:
    """Forget a binding: its waiting calls are refused, a running one is waited for, its state is undone."""
    bound = board.bindings.get(binding)
    if bound is None:
        board.bury(binding)
        return
    gone = failure or SlicewiseError("binding_gone", "The invocation that made this call has ended.")
    for call in [c for c in board.waiting() if c.binding == binding]:
        board.fail(call, gone, now)
    if bound.open_calls:
        bound.ending = True
        bound.end_failure = failure
        return
    del board.bindings[binding]
    board.bury(binding)
    board.out.append(BindingDropped(binding, failure))


def restore(board: Board) -> None:
    """Undo what an ended invocation has changed, before another uses the worker."""
    for worker in board.workers.values():
        if worker.phase is Phase.READY and worker.dirty_by and worker.dirty_by not in board.bindings:
            worker.phase = Phase.RESETTING
            reason = f"binding {worker.dirty_by} changed it and has ended"
            board.out.append(Reset(worker.key, worker.incarnation, reason))
