"""A keystore that is rotated beneath a running client: the client goes on with the new keys, or says why it cannot."""

from dataclasses import replace

import pytest

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Committed, Drawn
from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.keystore import ReloadingClient, WatchedKeystore
from tests.node.federation import Federation

CHEAP, PASSWORD = 1 << 12, "a password"


@pytest.fixture
def keystore(tmp_path):
    """A keystore that is watched, and the function that writes other keys to it."""
    keys, path = Keys.generate(), tmp_path / "alice.json"

    def write(other: Keys, password: str = PASSWORD) -> Keys:
        save(path, other, password, CHEAP)
        return other

    write(keys)
    return WatchedKeystore(path, PASSWORD), write


def test_rotated_keys_are_found_once(keystore):
    watched, write = keystore
    assert watched.changed() is None
    fresh = write(watched.keys.with_new_vrf())
    assert watched.changed() == fresh == watched.keys and watched.changed() is None
    fresh = write(watched.keys.with_new_mailbox())
    assert watched.changed() == fresh


def test_the_same_keys_written_again_and_a_file_that_is_away_are_no_change(keystore):
    watched, write = keystore
    write(watched.keys)
    assert watched.changed() is None
    watched._path.unlink()
    assert watched.changed() is None


@pytest.mark.parametrize(
    ("other", "password", "sentence"),
    [
        (lambda keys: Keys.generate(), PASSWORD, "now holds the keys of account"),
        (lambda keys: replace(keys, storage=bytes(32)), PASSWORD, "does not open the journal"),
        (lambda keys: keys.with_new_vrf(), "another", "password"),
    ],
)
def test_keys_that_no_rotation_leaves_are_refused_once_and_the_old_ones_stay(keystore, other, password, sentence):
    watched, write = keystore
    before = watched.keys
    write(other(before), password)
    with pytest.raises(InvalidInput, match=sentence):
        watched.changed()
    assert watched.keys is before and watched.changed() is None


class Idle:
    """A client that has nothing to do and no alarm of its own."""

    alarm = ""

    def step(self) -> Step:
        return Step.wait("draw", "has nothing to do")


@pytest.mark.parametrize("half", [b"", b"{", None])
def test_the_alarm_about_a_spoilt_keystore_ends_once_the_file_is_whole_again(keystore, half):
    """A copy that is written in place is read half way through; whoever puts a foreign file there may put it back."""
    watched, write = keystore
    client, before = ReloadingClient(watched, lambda keys: Idle()), watched.keys
    if half is None:
        write(Keys.generate())
    else:
        watched._path.write_bytes(half)
    for _ in range(2):
        client.step()
        assert "this client goes on with its old keys" in client.alarm
    write(before)
    client.step()
    assert client.alarm == "" and watched.keys == before


@pytest.fixture(scope="module")
def rotated(tmp_path_factory):
    """A federation of three rounds: client 1's VRF key is rotated in the first, and its process goes on."""
    place, steps, alarms = tmp_path_factory.mktemp("rotated"), [], set()
    with embedded() as network:
        made = Federation.found(network, place, 3, 3, 2, training=TrainingSettings(epochs=1, batch_size=20))
        made.register()
        path = place / "alice.json"
        save(path, made.keys[0], PASSWORD, CHEAP)
        client = ReloadingClient(WatchedKeystore(path, PASSWORD), lambda keys: made.client(1, keys=keys))
        coordinator, clients = made.coordinator(), {**made.clients(), 1: client}
        begun = False
        while made.turn(coordinator, clients):
            alarms.add(client.alarm)
            if not begun and "shared" in made.said("client 1"):
                begun, fresh = True, made.keys[0].with_new_vrf()
                save(path, fresh, PASSWORD, CHEAP)
                steps += [client.step() for _ in range(2)]  # the ledger has the old key yet
                made.ledger(fresh).rotate_vrf_key(fresh)
        yield made, fresh, steps, alarms


def test_it_commits_in_the_round_that_it_drew_in_and_draws_in_the_later_ones(rotated):
    made, _, _, _ = rotated
    said = made.said("client 1")
    assert said.count("loaded its keystore again, which has other keys") == 1
    rounds = {
        kind: [record.round for record in made.records() if isinstance(record, kind) and record.client == 1]
        for kind in (Drawn, Committed)
    }
    assert rounds[Drawn] == rounds[Committed] and {1, 3} <= set(rounds[Drawn]), said
    assert made.audit().verdict == "verified"


def test_until_the_ledger_has_the_new_key_it_goes_on_with_the_old_one_and_nobody_is_alarmed(rotated):
    _, _, steps, alarms = rotated
    assert all(step.phase != "keys" for step in steps) and alarms == {""}


def test_a_client_without_the_rotated_keystore_says_at_error_level_what_to_do(rotated):
    made, _, _, _ = rotated
    late = made.client(1)  # with the old keys
    late.view.refresh()
    assert (
        "the ledger has another VRF key" in late.alarm
        and "give this client the keystore that was rotated" in late.alarm
    )
