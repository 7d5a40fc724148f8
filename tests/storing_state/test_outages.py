"""etcd goes away: calls fail in time, and watches lose nothing when it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from datastore import administration, keys, server
from datastore.store import Store
from proto.types.errors import SlicewiseError
from tests.etcd_rig import PASSWORD, Etcd, free_ports


async def _next(changes: AsyncIterator[tuple[str, dict[str, object] | None]]) -> tuple[str, dict[str, object] | None]:
    return await asyncio.wait_for(anext(changes), 20)


async def test_a_watch_tells_what_is_there_then_every_change(store: Store) -> None:
    await store.put(keys.node("a"), {"n": 0})
    changes = store.watch_prefix(keys.NODES)
    assert await _next(changes) == (keys.node("a"), {"n": 0})
    waiting = asyncio.create_task(_next(changes))
    for number in range(50):
        await store.put(keys.node("b"), {"n": number})
    assert await waiting == (keys.node("b"), {"n": 0})
    assert [await _next(changes) for _ in range(49)] == [(keys.node("b"), {"n": n}) for n in range(1, 50)]
    await store.put(keys.POLICY, {"name": "not watched"})
    await store.delete(keys.node("a"))
    assert await _next(changes) == (keys.node("a"), None)
    await changes.aclose()


async def test_a_watch_misses_nothing_while_etcd_restarts(store: Store, etcd: Etcd) -> None:
    await store.put(keys.node("gone"), {"n": 0})
    await store.put(keys.node("same"), {"n": 0})
    changes = store.watch_prefix(keys.NODES)
    assert {(await _next(changes))[0] for _ in range(2)} == {keys.node("gone"), keys.node("same")}
    waiting = asyncio.create_task(_next(changes))
    await asyncio.sleep(0)
    etcd.kill()
    with pytest.raises(SlicewiseError) as caught:
        await store.put(keys.node("lost"), {"n": 1})
    assert caught.value.code == "unavailable"
    etcd.start()
    await asyncio.to_thread(etcd.ready)
    # Another client writes before the watch is back; its token and ours died with the server.
    other = Store(etcd.address, server.USER, PASSWORD)
    await other.delete(keys.node("gone"))
    await other.put(keys.node("new"), {"n": 2})
    seen = [await waiting, await _next(changes)]
    assert sorted(seen, key=lambda pair: pair[0]) == [(keys.node("gone"), None), (keys.node("new"), {"n": 2})]
    await store.put(keys.node("after"), {"n": 3})
    assert await _next(changes) == (keys.node("after"), {"n": 3})
    await changes.aclose()
    await other.close()


async def test_an_old_token_is_replaced_without_the_caller_noticing(store: Store, etcd: Etcd) -> None:
    await store.put(keys.POLICY, {"name": "lb"})
    etcd.kill()
    etcd.start()
    await asyncio.to_thread(etcd.ready)
    answers = await asyncio.gather(*(store.get(keys.POLICY) for _ in range(20)))
    assert answers == [{"name": "lb"}] * 20


async def test_a_hanging_etcd_fails_the_call_by_its_deadline_and_works_again(etcd: Etcd) -> None:
    store = Store(etcd.address, server.USER, PASSWORD, timeout_s=0.5)
    await store.put(keys.POLICY, {"name": "lb"})
    etcd.freeze()
    try:
        started = time.monotonic()
        for operation in (store.get(keys.POLICY), store.keep_alive(1), store.list_prefix(keys.NODES)):
            with pytest.raises(SlicewiseError, match=r"within 0\.5 s") as caught:
                await operation
            assert caught.value.code == "unavailable"
        assert time.monotonic() - started < 5
    finally:
        etcd.thaw()
    deadline = time.monotonic() + 20
    while True:
        try:
            assert await store.get(keys.POLICY) == {"name": "lb"}
            break
        except SlicewiseError:
            assert time.monotonic() < deadline
    await store.close()


async def test_where_nobody_listens_the_address_is_named() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    store = Store(address, "slicewise", "x")
    with pytest.raises(SlicewiseError, match=address) as caught:
        await store.connect()
    assert caught.value.code == "unavailable"
    with pytest.raises(SlicewiseError, match="did not serve"):
        await administration.wait_until_serving(address, 0.5)
    await store.close()


async def test_closing_the_store_ends_its_watches(etcd: Etcd) -> None:
    store = Store(etcd.address, server.USER, PASSWORD)
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in store.watch_prefix(keys.NODES):
            seen.set()

    following = asyncio.create_task(follow())
    await store.put(keys.node("a"), {"n": 0})
    await asyncio.wait_for(seen.wait(), 20)
    await store.close()
    await asyncio.wait_for(following, 20)
    assert not following.cancelled()
    with pytest.raises(SlicewiseError, match="closed"):
        await store.get(keys.node("a"))
