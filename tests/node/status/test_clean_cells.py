"""What ``fedgrove status`` shows where members spoil sums: cells, how often each was summed, and a standstill."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.node.cli.status import Display
from fedgrove.node.methods.terms import config_of
from fedgrove.node.methods.training.method import codec_of
from fedgrove.node.protocol.cells import Cells, has_cells
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.roles.client import Client
from fedgrove.node.status.clean_cells import CellReader
from fedgrove.node.status.federation import StatusReader
from tests.node.federation import Federation

MEMBERS = 8


def spoiling(made: Federation, number: int) -> Client:
    """A client that adds as much to a parameter of its own as no honest clients together could."""
    client = made.client(number)
    honest = client.context.disclosure.mask

    def spoilt(*inputs) -> bytes:
        words = np.frombuffer(honest(*inputs), "<u4").copy()
        words[number : number + 1] += np.uint32(1.9 * 2**30)
        return words.tobytes()

    client.context.disclosure.mask = spoilt
    return client


def played(network, directory, spoilers, rounds=3) -> Federation:
    """A federation of which these members spoil each sum they can, until it ends or stands still."""
    made = Federation.found(network, directory, clients=MEMBERS, rounds=rounds, repeats=100)
    made.register()
    coordinator, clients = made.coordinator(), made.clients()
    clients |= {number: spoiling(made, number) for number in spoilers}
    while made.turn(coordinator, clients) and coordinator.round < 12:
        pass
    return made


def read(made: Federation):
    now = StatusReader(made.network, made.ledger(made.keys[0]), made.config, made.store).read()
    return now, dict(Display(made.deployment).rows(now))


def test_the_cell_of_a_spoiler_is_the_one_that_was_never_summed(tmp_path):
    with embedded() as network:
        made = played(network, tmp_path, {3}, rounds=2)
        now, rows = read(made)
        view = LedgerView(made.ledger(made.keys[0]))
        view.refresh()
        (own,) = [cell for cell in Cells(view.rounds, made.config).clients(2) if 3 in cell]
        clean = CellReader(made.config, made.store, (network.chain_id, made.deployment.ledger)).read(view)["clean"]
    assert clean == {client: (0 if client in own else 2, 2) for client in range(1, MEMBERS + 1)}
    assert not now.standstill and not now.clean and not {"stands still", "cells that were summed"} & set(rows)


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    """A federation of which more members spoil sums than a cell has."""
    with embedded() as network:
        yield played(network, tmp_path_factory.mktemp("stuck"), {1, 2, 3, 4, 5})


def test_a_federation_that_stands_still_names_its_cells_and_waits_for_people(stuck):
    now, rows = read(stuck)
    assert not now.standing.finished and rows["waiting for"] == "people to act"
    first, second = now.cells
    named = ", ".join("{" + ", ".join(map(str, cell)) + "}" for cell in (first, second))
    assert rows["stands still"] == now.standstill
    assert now.standstill.startswith(f"each of the cells {named} holds a member that spoils")
    assert rows["cells"] == " | ".join(", ".join(map(str, cell)) for cell in (first, second))
    assert sorted((*first, *second)) == list(range(1, MEMBERS + 1))
    assert {times for times, _ in now.clean.values()} == {0} and set(now.clean) == set(range(1, MEMBERS + 1))
    assert rows["cells that were summed"].startswith("0 of ")
    document = json.loads(json.dumps(now.to_dict()))
    assert document["cells"] == [list(first), list(second)] and document["clean"]["3"] == list(now.clean[3])
    assert document["standstill"] == now.standstill


def test_rows_put_first_whose_cells_were_summed_least(stuck):
    now, _ = read(stuck)
    counts = {1: (2, 2), 2: (0, 2), 3: (2, 2), 4: (0, 2), 9: (1, 1)}
    rows = dict(Display(stuck.deployment).rows(replace(now, clean=counts)))
    said = "0 of 2 times: clients 2, 4 | 2 of 2 times: clients 1, 3 | 1 of 1 times: client 9"
    assert rows["cells that were summed"] == said


def test_without_what_was_summed_the_rest_is_shown(tmp_path):
    with embedded() as network:
        made = played(network, tmp_path, {3}, rounds=1)
        shutil.rmtree(made.store.path / "blocks")
        reader = StatusReader(network, made.ledger(made.keys[0]), made.config, made.store)
        reader._groups = lambda view: ("all its members together have a member that spoils", ())
        now = reader.read()
    assert not now.clean and "the store cannot be read" in now.faults["clean cells"] and now.standstill


@pytest.mark.parametrize("mechanism", ["none", "client", "local", "signds"])
def test_there_are_cells_where_uploads_are_summed_in_them(mechanism):
    masked = {"masking": {"masked": "delta"}} if mechanism == "client" else {}
    tables = {"model": {"name": "small-mlp", "input_shape": [1, 8, 8], "classes": 10}, **masked}
    config, _ = config_of(tables | {"privacy": {"mechanism": mechanism}})
    codec = type(codec_of(config))
    assert has_cells(config) is (mechanism in ("none", "local"))
    assert (codec.groups is Codec.groups) is (mechanism == "signds")
