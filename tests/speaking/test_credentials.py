"""Nobody speaks for anybody else: tokens are bound to their issuer, their claims and their time."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.types.errors import SlicewiseError
from proto.types.placing import Binding
from proto.wire.convert import sign_binding, verify_binding
from proto.wire.credentials import ISSUERS, SigningKey, Trust
from proto.wire.peers import verify_subject

KEYS = {issuer: SigningKey.generate(issuer) for issuer in ISSUERS}
TRUST = Trust({issuer: key.public_hex() for issuer, key in KEYS.items()})


def test_a_token_gives_back_its_claims() -> None:
    token = KEYS["platform"].sign({"sub": "service:gateway"})
    assert TRUST.verify(token, "platform", 0)["sub"] == "service:gateway"


@pytest.mark.parametrize("issuer", ["platform", "replicas"])
def test_a_token_of_one_issuer_is_not_one_of_another(issuer: str) -> None:
    with pytest.raises(SlicewiseError):
        TRUST.verify(KEYS[issuer].sign({"sub": "x"}), "bindings", 0)


def test_a_replica_key_cannot_make_a_service() -> None:
    with pytest.raises(SlicewiseError):
        verify_subject(TRUST, KEYS["replicas"].sign({"sub": "service:scheduler"}))
    assert verify_subject(TRUST, KEYS["replicas"].sign({"sub": "replica:f.ns"})) == "replica:f.ns"


@given(position=st.integers(0, 400), change=st.integers(1, 127))
def test_a_changed_token_is_refused(position: int, change: int) -> None:
    token = KEYS["bindings"].sign({"sub": "x", "padding": "y" * 100})
    position %= len(token)
    changed = token[:position] + chr(ord(token[position]) ^ change) + token[position + 1 :]
    try:
        claims = TRUST.verify(changed, "bindings", 0)
    except SlicewiseError:
        return
    # base64 has spare bits in its last character: the same bytes, hence the same claims
    assert claims == {"sub": "x", "padding": "y" * 100, "iss": "bindings"}


@pytest.mark.parametrize("token", ["", ".", "a.b", "é.é", "a" * 10_000])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(SlicewiseError):
        TRUST.verify(token, "platform", 0)


def test_a_binding_travels_signed_and_expires() -> None:
    binding = Binding("b", 3, "c", "f.ns@r", "s0", "n", "/run/door", "127.0.0.1:1", 20001, True, False, 17, 1000)
    token = sign_binding(KEYS["bindings"], binding)
    assert verify_binding(TRUST, token, 1000) == binding
    with pytest.raises(SlicewiseError, match="expired"):
        verify_binding(TRUST, token, 1001)


def test_a_saved_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    KEYS["platform"].save(path)
    assert path.stat().st_mode & 0o077 == 0
    assert SigningKey.load("platform", path).public_hex() == KEYS["platform"].public_hex()
    trust = tmp_path / "trust.json"
    trust.write_text(json.dumps({"platform": KEYS["platform"].public_hex()}))
    assert Trust.load(trust).verify(KEYS["platform"].sign({"a": 1}), "platform", 0)["a"] == 1
