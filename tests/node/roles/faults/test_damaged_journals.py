"""A client that lost its journal, or a part of it, sits the round out, says so, and is back in the next."""

import shutil

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Failed, Released, Shared
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from tests.node.federation import Federation
from tests.node.roles.faults.world import QUICK

ME = 2


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=5, rounds=2, repeats=1, training=QUICK)
        made.register()
        yield made


def removed(federation):
    shutil.rmtree(federation.directory / f"client-{ME}")


def truncated(name):
    def damage(federation):
        path = federation.directory / f"client-{ME}" / f"00000001-{name}.sealed"
        path.write_bytes(path.read_bytes()[:-1])

    return damage


def begun_anew(federation):
    """As after a journal was lost while the draw was in no block yet: the next life made other secrets."""
    removed(federation)
    federation.client(ME).context.disclosure.secrets(1)


def run(federation, moment, damage):
    """The whole federation; client 2 is killed at a moment, its journal damaged, and started again."""
    coordinator, clients = federation.coordinator(), federation.clients()
    while federation.turn(coordinator, clients):
        if damage is not None and moment in federation.said(f"client {ME}"):
            damage(federation)
            clients[ME], damage = federation.client(ME), None
    return federation.history().records()


def of_mine(records, kind):
    return [record.round for record in records if isinstance(record, kind) and record.client == ME]


@pytest.mark.parametrize(
    ("moment", "damage", "said"),
    [
        ("drew", removed, "its journal of the round is missing"),
        ("drew", begun_anew, "the round's secrets do not match the keys that client 2 drew with"),
        ("drew", truncated("note"), "was not written with this keystore or has been changed"),
        ("shared", removed, "its journal of the round is missing"),
        ("shared", begun_anew, "the round's secrets do not match the keys that client 2 drew with"),
        ("shared", truncated("note"), "was not written with this keystore or has been changed"),
    ],
)
def test_it_sits_out_says_why_and_is_back_in_the_next_round(federation, moment, damage, said):
    records = run(federation, moment, damage)
    assert of_mine(records, Committed) == of_mine(records, Released) == [2]
    assert of_mine(records, Shared) == ([2] if moment == "drew" else [1, 2])
    assert any(said in sentence for sentence in federation.said(f"client {ME}"))
    assert [record.round for record in records if isinstance(record, Closed)] == [1, 2]
    assert federation.audit().verdict == "verified"


@pytest.mark.parametrize(
    ("damage", "said"), [(removed, "its journal"), (truncated("masked"), "was not written with this keystore")]
)
def test_a_commitment_whose_update_is_lost_costs_the_round_and_the_ledger_says_so(federation, damage, said):
    records = run(federation, "committed", damage)
    (failed,) = (record for record in records if isinstance(record, Failed))
    assert failed.round == 1
    assert any(said in sentence for sentence in federation.said(f"client {ME}"))
    assert of_mine(records, Committed) == [1, 2, 3] and of_mine(records, Released) == [2, 3]
    assert [record.round for record in records if isinstance(record, Closed)] == [2, 3]
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    assert [(remark.client, remark.field) for remark in verdict.remarks] == [(ME, "commit.content")]


def test_what_a_killed_writer_left_half_written_harms_nobody(federation):
    def half_written(federation):
        path = federation.directory / f"client-{ME}" / "00000001-shares.sealed.tmp"
        path.write_bytes(b"half of it")

    records = run(federation, "drew", half_written)
    assert of_mine(records, Committed) == [1, 2]
    left = {path.name for path in (federation.directory / f"client-{ME}").iterdir()}
    assert left == {"keys", "releases.sealed", "begun.sealed", "weight.sealed", "federation.sealed"}


def test_the_damage_is_damage(federation):
    """Else these tests would test nothing."""
    journal = Journal(federation.directory / f"client-{ME}", federation.keys[ME - 1].storage)
    journal.write(1, "note", b"of a round")
    truncated("note")(federation)
    with pytest.raises(JournalDamaged):
        journal.read(1, "note")
