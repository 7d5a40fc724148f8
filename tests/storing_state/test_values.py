"""Reading and writing: what goes in comes out, and what cannot be understood is said."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from datastore import administration, keys, server
from datastore.store import Store
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from tests.etcd_rig import PASSWORD, ROOT_PASSWORD, Etcd

FOX = FunctionKey("openfaas-fn", "fox")


async def test_a_value_comes_back_as_it_was_written(store: Store) -> None:
    value = {"name": "lalb", "o3_limit": 25, "nested": {"text": "\u00e4 / \u2603"}}
    assert await store.get(keys.POLICY) is None
    await store.put(keys.POLICY, value)
    assert await store.get(keys.POLICY) == value
    assert await store.delete(keys.POLICY)
    assert not await store.delete(keys.POLICY)
    assert await store.get(keys.POLICY) is None


async def test_keys_of_one_prefix_are_listed_in_order_and_no_others(store: Store) -> None:
    for name in ("b", "a", "c"):
        await store.put(keys.function(FunctionKey("one", name)), {"name": name})
    await store.put(keys.function(FunctionKey("one-more", "d")), {"name": "d"})
    listed = await store.list_prefix(keys.functions_of("one"))
    assert [value["name"] for value in listed.values()] == ["a", "b", "c"]
    assert [keys.function_of(key) for key in listed] == [FunctionKey("one", name) for name in "abc"]
    assert await store.delete_prefix(keys.functions_of("one")) == 3
    assert len(await store.list_prefix(keys.FUNCTIONS)) == 1


async def test_of_many_who_create_one_key_one_wins(store: Store) -> None:
    won = await asyncio.gather(*(store.put_if_absent(keys.uid(7), {"function": str(n)}) for n in range(20)))
    assert won.count(True) == 1
    assert await store.get(keys.uid(7)) == {"function": str(won.index(True))}


async def test_a_write_over_a_changed_value_is_refused(store: Store) -> None:
    await store.put(keys.POLICY, {"name": "lb"})
    found = await store.get_with_version(keys.POLICY)
    assert found
    _, version = found
    await store.delete(keys.POLICY)
    await store.put(keys.POLICY, {"name": "lb"})
    assert not await store.put_if_version(keys.POLICY, {"name": "lalb"}, version)
    assert await store.get(keys.POLICY) == {"name": "lb"}


async def test_a_key_goes_with_its_lease(store: Store) -> None:
    lease = await store.lease(30)
    assert await store.put_if_absent(keys.ELECTION, {"epoch": 1}, lease)
    assert await store.keep_alive(lease)
    await store.revoke(lease)
    await store.revoke(lease)
    assert await store.get(keys.ELECTION) is None
    assert not await store.keep_alive(lease)


def _etcdctl(etcd: Etcd, *arguments: str) -> str:
    program = server.binary().with_name("etcdctl")
    user = f"root:{ROOT_PASSWORD}"
    done = subprocess.run(
        [program, "--endpoints", etcd.address, "--user", user, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


async def test_values_are_plain_json_with_a_version(store: Store, etcd: Etcd) -> None:
    await store.put(keys.function(FOX), {"replicas": 2})
    text = _etcdctl(etcd, "get", "--print-value-only", "/slicewise/v1/functions/openfaas-fn/fox")
    assert json.loads(text) == {"v": 1, "replicas": 2}


@pytest.mark.parametrize("stored", ['{"v":2,"name":"lb"}', '{"name":"lb"}', "[1]", "not json"])
async def test_a_value_of_another_form_is_refused_by_name(store: Store, etcd: Etcd, stored: str) -> None:
    _etcdctl(etcd, "put", keys.POLICY, stored)
    with pytest.raises(SlicewiseError, match="/slicewise/v1/policy") as caught:
        await store.get(keys.POLICY)
    assert caught.value.code == "internal"


async def test_nan_is_refused_before_it_is_written(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await store.put(keys.POLICY, {"alpha": float("nan")})
    assert await store.get(keys.POLICY) is None


@pytest.mark.parametrize("part", ["", "a/b"])
def test_a_part_of_a_key_is_never_empty_and_has_no_slash(part: str) -> None:
    with pytest.raises(ValueError, match="part of a key"):
        keys.slice_(part)


async def test_a_wrong_password_is_said(etcd: Etcd) -> None:
    stranger = Store(etcd.address, server.USER, "guess")
    with pytest.raises(SlicewiseError) as caught:
        await stranger.connect()
    assert caught.value.code == "unauthorised"
    await stranger.close()


async def test_nobody_reads_without_a_password_and_no_one_else_s_keys(etcd: Etcd, store: Store) -> None:
    stranger = Store(etcd.address)
    with pytest.raises(SlicewiseError):
        await stranger.get(keys.POLICY)
    await stranger.close()
    with pytest.raises(SlicewiseError) as caught:
        await store.get("/somebody/else")
    assert caught.value.code == "unauthorised"


async def test_securing_twice_changes_nothing_and_another_root_password_is_refused(etcd: Etcd, store: Store) -> None:
    await administration.secure(etcd.address, ROOT_PASSWORD, PASSWORD)
    await store.put(keys.POLICY, {"name": "lb"})
    with pytest.raises(SlicewiseError) as caught:
        await administration.secure(etcd.address, "another", PASSWORD)
    assert caught.value.code == "unauthorised"


async def test_unused_space_is_given_back(etcd: Etcd, store: Store) -> None:
    size, used = await administration.file_bytes(etcd.address, ROOT_PASSWORD)
    assert 0 < used <= size < server.QUOTA_BYTES
    assert await administration.tidy(etcd.address, ROOT_PASSWORD) is False  # a small file is left alone
