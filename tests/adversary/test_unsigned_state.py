"""A member without the coordinator's key, whose grace is over, closes a round with blobs that no code expects.

It wants the federation to end: whoever reads the round, clients, coordinator, audit, is to stop in an error, for ever.
Short rows in stated overlaps did that, as they were read before anybody asked for the signature. What stops it: nothing
of a statement is read before the signature holds, parsers know the length of every row and the range of every number,
and whatever an audit or a service meets all the same is a bad record, and a turn that ends.
"""

import io
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.node.audit.content import ContentRules
from fedgrove.node.methods.procfl import method, stated
from fedgrove.node.methods.procfl import round_inputs as cluster_rounds
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.service import Service
from tests.adversary import clustered
from tests.node.federation import Federation

ATTACKER = 6


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = clustered.found(network, tmp_path, (0, 0, 0, 1, 1, 1), rounds=6)
        made.register()
        yield made


def statement(**changes: object) -> dict:
    return {"overlaps": [], "right": [], "signature": "", "tested": [], **changes}


STATEMENTS = {
    "short rows": statement(overlaps=[[]] * 6),
    "rows of several lengths": statement(overlaps=[[48] * length for length in (6, 6, 6, 6, 6, 1)]),
    "a long row": statement(overlaps=[[48] * 6] * 5 + [[48] * 7]),
    "numbers beyond all sets": statement(overlaps=[[1 << 52] * 6] * 6),
    "scores of labels that there are not": statement(right=[[1]], tested=[]),
    "a signature of the right length": statement(overlaps=[[48] * 6] * 6, signature="11" * 65),
}


def twice(found: ClusterState) -> ClusterState:
    """A client is in the sum of its own cluster three times."""
    return grouped(found, ((1, 1, 1), (4, 5, 6)))


def grouped(found: ClusterState, clusters: tuple) -> ClusterState:
    """A state that says that sets were compared, and these are the clusters."""
    overlaps = tuple(tuple(48 for _ in found.clients) for _ in found.clients)
    sets = {client: (digest, 48) for client, (digest, _) in found.sets.items()}
    return replace(found, stage="train", sets=sets, overlaps=overlaps, clusters=clusters)


STATES: dict[str, Callable[[ClusterState], ClusterState]] = {
    "a client three times in a cluster": twice,
    "a client beyond four bytes": lambda found: replace(found, sets={**found.sets, 1 << 40: ("ab" * 32, 48)}),
    "a set of more elements than there can be": lambda found: replace(
        found, sets={client: (digest, 1 << 50) for client, (digest, _) in found.sets.items()}
    ),
    "a session that is none": lambda found: replace(found, session="ab cd" * 13),
}


def until_fallen(made: Federation, role: Coordinator, clients: dict, number: int) -> None:
    """Let everybody go on until most members have judged a round's closing wrong."""
    for _ in range(60):
        made.turn(role, clients)
        current = clients[1].view.rounds.rounds[number]
        if current.voided is not None or current.replaced is not None:
            return
    raise AssertionError(made.log[-5:])


def said(made: Federation, clients: dict[int, Client], clusters: object = None) -> bytes:
    """The attacker's metrics of the latest round, right but for what they state of clusters."""
    return clustered.metrics_with(made, clients[ATTACKER], clusters)


@pytest.mark.parametrize("lie", STATEMENTS)
def test_a_statement_that_nobody_signed_stops_nobody(federation, lie):
    role = clustered.coordinator(federation)
    clients = {number: federation.client(number, check_rounds=1.0) for number in range(1, len(federation.keys) + 1)}
    clustered.until_released(federation, role, clients, 2)
    model = clustered.right_state(clients[ATTACKER]).to_bytes()
    clustered.close_instead(federation, clients[ATTACKER], model, said(federation, clients, STATEMENTS[lie]))
    until_fallen(federation, role, clients, 2)
    verdict = federation.audit()
    assert verdict.verdict == "verified" and (2, "closed.metrics") in [(r.round, r.field) for r in verdict.remarks]


def test_the_federation_goes_on_to_its_end(federation):
    role, clients = attacked(federation)
    while federation.turn(role, clients):
        pass
    last = clustered.states(federation)[-1]
    assert last.trained >= 1 and len(last.clusters) == 2 and federation.audit().verdict == "verified"


@pytest.mark.parametrize("lie", STATES)
def test_a_state_that_follows_from_nothing_stops_nobody(federation, lie):
    role, clients = clustered.coordinator(federation), federation.clients()
    clustered.until_released(federation, role, clients, 1)
    wrong = STATES[lie](clustered.right_state(clients[ATTACKER])).to_bytes()
    honest = said(federation, clients)
    clustered.close_instead(federation, clients[ATTACKER], wrong, honest)
    until_fallen(federation, role, clients, 1)
    assert federation.audit().verdict == "verified"


def odd_models(federation: Federation) -> Client:
    """A member that checks no closing, when a round begins with a state whose models have other tensors."""
    role, clients = clustered.coordinator(federation), federation.clients()
    clustered.until_released(federation, role, clients, 1)
    odd = {"w": np.zeros(3, np.float32)}
    lie = grouped(clustered.right_state(clients[ATTACKER]), ((1, 2, 3), (1, 2, 4, 5, 6)))
    honest = said(federation, clients)
    clustered.close_instead(federation, clients[ATTACKER], replace(lie, models=(odd, odd)).to_bytes(), honest)
    while role.step().phase != "draw":
        federation.network.advance_to(federation.network.block_number() + 1)
    careless = federation.client(2)
    closings = careless.context.closings
    closings.fault = lambda *_: ""  # whether it is drawn to look, or leads a cluster, or not
    return careless


def test_a_state_with_models_of_other_tensors_stops_nobody(federation):
    careless = odd_models(federation)
    assert "tensor 'conv1.weight' is missing" in careless.step().waiting
    assert "judged round 1 wrong" in federation.client(3, check_rounds=1.0).step().acted


# --- mutants ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def read_before_signed(monkeypatch):
    """As it was: rows of any length, and the statement read before its signature is."""

    def accepted(config, found, digest, said):
        return cluster_rounds.course_of(config).after_statement(found, said)

    monkeypatch.setattr(stated, "_is_whole", lambda _: True)
    for module in (cluster_rounds, method):
        monkeypatch.setattr(module, "accepted", accepted)


@pytest.fixture
def no_last_resort(monkeypatch):
    """As it was: an error that nobody expected ends a client's step, and an audit."""

    def recompute(self, current, end):
        return self._difference(self.inputs(current), end)

    monkeypatch.setattr(Closings, "_recompute", recompute)
    monkeypatch.setattr(Closings, "_repeats", lambda self, current, client: False)
    monkeypatch.setattr(ContentRules, "check", ContentRules._check)


def attacked(federation: Federation) -> tuple[Coordinator, dict]:
    role = clustered.coordinator(federation)
    clients = {number: federation.client(number, check_rounds=1.0) for number in range(1, len(federation.keys) + 1)}
    clustered.until_released(federation, role, clients, 2)
    model = clustered.right_state(clients[ATTACKER]).to_bytes()
    lie = said(federation, clients, STATEMENTS["short rows"])
    clustered.close_instead(federation, clients[ATTACKER], model, lie)
    return role, clients


@pytest.mark.mutants
def test_without_the_mend_every_client_and_the_audit_stop(federation, read_before_signed, no_last_resort):
    _, clients = attacked(federation)
    for client in clients.values():
        with pytest.raises(IndexError):
            client.step()
        with pytest.raises(IndexError):
            client.step()
    with pytest.raises(IndexError):
        federation.audit()


def test_an_audit_that_meets_what_no_parser_knows_names_the_record(federation, read_before_signed):
    attacked(federation)
    bad = federation.audit().first_bad_record
    assert (bad.round, bad.field) == (2, "closed.content") and "IndexError" in bad.reason


class Heads:
    """Says so often that there may be a new block; then the service is stopped."""

    def __init__(self, turns: int) -> None:
        self.left = turns

    def wait(self, seconds: float) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def serve(client, turns: int) -> tuple[list[dict], str]:
    """What a service of this client logs, and its metrics."""
    log, metrics = io.StringIO(), ServiceMetrics()
    with pytest.raises(KeyboardInterrupt):
        Service({"client": client}, Heads(turns), ServiceLog("client", log), metrics, patience=60.0).run()
    from prometheus_client import generate_latest

    return [json.loads(line) for line in log.getvalue().splitlines()], generate_latest(metrics._registry).decode()


def judged(made: Federation, clients: dict[int, Client]) -> str:
    """What a member says that judges, once no more shares can come: the coordinator alone could state the result."""
    for _ in range(40):
        step = clients[1].step()
        if step.phase == "judge" and step.acted:
            return step.acted
        made.network.advance_to(max(step.until, made.network.block_number() + 1))
    return ""


def test_members_judge_what_ends_in_an_error_that_nobody_expected(federation, read_before_signed):
    _, clients = attacked(federation)
    assert "failed with IndexError" in judged(federation, clients)


def test_a_service_goes_on_at_the_next_block_and_says_what_it_was(federation, read_before_signed, no_last_resort):
    _, clients = attacked(federation)
    lines, metrics = serve(clients[1], turns=3)
    (line,) = [line for line in lines if line["level"] == "warning"]
    assert line["kind"] == "IndexError" and "unexpected error" in line["event"] and "course.py" in line["event"]
    assert 'fedgrove_faults_total{kind="IndexError"} 3.0' in metrics


def test_an_error_that_nobody_expected_spoils_nothing_that_the_member_remembers(
    federation, read_before_signed, no_last_resort, monkeypatch
):
    _, clients = attacked(federation)
    serve(clients[1], turns=2)
    monkeypatch.undo()
    assert "judged round 2 wrong" in judged(federation, clients)


def test_statements_are_of_one_form(federation):
    """Every row has its length: whoever reads one finds what it looks for."""
    for name, table in STATEMENTS.items():
        if name in ("numbers beyond all sets", "a signature of the right length"):
            assert Stated.from_table(table).to_bytes() == canonical_json(table)  # that is for the signature to say
            continue
        with pytest.raises(InvalidContent):
            Stated.from_table(table)
    assert np.array(Stated.from_table(statement(overlaps=[[1, 0], [0, 1]])).overlaps).shape == (2, 2)
