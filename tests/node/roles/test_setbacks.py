"""A member that hangs uses up a federation's repeats: everybody who looks is warned while there are some left."""

import io
import json

import pytest
from prometheus_client import generate_latest

from fedgrove.chain.face.networks import embedded
from fedgrove.node.cli import services
from fedgrove.node.cli.doctor import Health, round_findings
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.service import Service
from fedgrove.node.status.standing import standing
from tests.node.federation import Federation

ROUNDS, REPEATS = 2, 4


class Others:
    """New blocks, in which members act, the third one until it shared; says what was seen by rounds that had ended."""

    def __init__(self, federation, coordinator, look):
        self._federation, self._coordinator, self._look = federation, coordinator, look
        self._clients = {number: federation.client(number) for number in (1, 2, 3)}
        self.seen = {}

    def wait(self, seconds):
        ended = len(self._coordinator.view.rounds.ended())
        if ended not in self.seen:
            self.seen[ended] = self._look()
        latest = self._coordinator.view.rounds.latest
        hangs = latest is not None and latest.end is None and 3 in latest.shares
        self._federation.turn(
            self._coordinator, {number: each for number, each in self._clients.items() if not (hangs and number == 3)}
        )
        return True


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    """A federation whose third member never commits, as a coordinator's service runs it; what could be seen."""
    log, metrics = io.StringIO(), ServiceMetrics()
    with embedded() as network:
        training = TrainingSettings(batch_size=20)
        made = Federation.found(
            network, tmp_path_factory.mktemp("stuck"), clients=3, rounds=ROUNDS, repeats=REPEATS, training=training
        )
        made.register()

        def look():
            now = standing(made.ledger(made.keys[0]))
            findings = list(round_findings(now.setbacks))
            return now, findings, generate_latest(metrics._registry).decode()

        coordinator = made.coordinator()
        others = Others(made, coordinator, look)
        roles = {"coordinator": coordinator}
        result = Service(roles, others, ServiceLog("coordinator", log), metrics, patience=60.0).run()
        lines = [json.loads(line) for line in log.getvalue().splitlines()]
        yield result, others.seen, [line for line in lines if line["level"] != "info"], look()


def test_its_log_warns_once_a_round_and_says_at_the_end_that_there_is_no_result(stuck):
    _, _, lines, _ = stuck
    assert lines[0]["event"].startswith("the last 2 rounds left no model, so the next one is not opened before block")
    assert "missing: client 3 since round 1" in lines[0]["event"]
    assert [
        line["event"] for line in lines if "of federation.repeats is used up: 2 sealed rounds failed" in line["event"]
    ]
    assert lines[-1]["level"] == "error" and "there is no result" in lines[-1]["event"]
    assert len({line["event"] for line in lines}) == len(lines)


def test_status_doctor_and_metrics_say_the_same(stuck):
    _, seen, lines, _ = stuck
    now, findings, figures = seen[2]
    assert list(now.setbacks.warnings) == now.to_dict()["warnings"] == [each.sentence for each in findings]
    assert {each.health for each in findings} == {Health.WARNING}
    assert set(now.setbacks.warnings) <= {line["event"] for line in lines}
    for figure in ("rounds_in_vain 2.0", "rounds_in_vain_in_a_row 2.0", "repeats_left 2.0"):
        assert f"fedgrove_{figure}" in figures
    assert 'fedgrove_missing_since_round{client="3"} 1.0' in figures


def test_a_service_that_ends_without_a_result_says_so_and_doctor_has_failed(stuck):
    result, _, _, (now, (finding,), _) = stuck
    assert not result and now.finished and now.setbacks.without_result
    assert finding.health == Health.FAILED and "deploy the federation again" in finding.sentence


@pytest.mark.parametrize(("result", "code", "level"), [(True, 0, "info"), (False, 1, "error")])
def test_the_exit_code_says_whether_there_is_a_result(monkeypatch, result, code, level):
    from contextlib import ExitStack
    from types import SimpleNamespace

    class Ended:
        def __init__(self, *_):
            pass

        def run(self):
            return result

    monkeypatch.setattr(services, "Service", Ended)
    monkeypatch.setattr(services, "Heads", lambda *_: ExitStack())
    log = io.StringIO()
    network = SimpleNamespace(can_mine=False)
    place = SimpleNamespace(log=ServiceLog("client", log), network=network)
    with ExitStack() as stack:
        assert services._serve(stack, place, NetworkSettings(), {}, False, 0) == code
    assert json.loads(log.getvalue())["level"] == level
