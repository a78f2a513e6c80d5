"""Stand-in for Kubo's program ``ipfs``: the commands of docs/two-machines.md, by Kubo as a library.

The library has no command line. This keeps Kubo's own configuration file, in which the program's commands write, and
serves a node on it as the project's tests do, but on the addresses that are configured.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

REPO = Path(os.environ["IPFS_PATH"])
CONFIG = REPO / "config"
API = re.compile(r"/ip4/([0-9.]+)/tcp/([0-9]+)\Z")


def init() -> None:
    from fedgrove.node.devnet.kubo import library  # slow, and most commands do without

    REPO.mkdir()
    library.Kubo(REPO)


def configure(key: str, value: object) -> None:
    config = json.loads(CONFIG.read_text())
    *tables, last = key.split(".")
    table = config
    for name in tables:
        table = table.setdefault(name, {})
    table[last] = value
    CONFIG.write_text(json.dumps(config))


def identify(form: str) -> None:
    print(form.replace("<id>", json.loads(CONFIG.read_text())["Identity"]["PeerID"]), end="")


def peers() -> None:
    host, port = API.match((REPO / "api").read_text()).groups()
    with urlopen(f"http://{host}:{port}/api/v0/swarm/peers", b"", timeout=10) as answer:
        print(*(f"{peer['Addr']}/p2p/{peer['Peer']}" for peer in json.load(answer)["Peers"]), sep="\n")


def keep_what_is_configured(repo: Path, port: int = 0, listens: bool = True) -> None:
    """Make a repository private as the tests' nodes are, but where the configuration says."""
    from fedgrove.node.devnet.kubo.local_node import make_private

    before = json.loads((repo / "config").read_text())
    make_private(repo, port, listens)
    after = json.loads((repo / "config").read_text())
    if listens:
        assert before["Bootstrap"] == [] and before["Routing"]["Type"] == "none" and os.environ["LIBP2P_FORCE_PNET"]
        assert before["Discovery"]["MDNS"]["Enabled"] is False
        after["Addresses"] |= {name: before["Addresses"][name] for name in ("Swarm", "API")}
    (repo / "config").write_text(json.dumps(after))


def daemon() -> None:
    from fedgrove.node.devnet.kubo import front, library

    stopped = threading.Event()
    config = json.loads(CONFIG.read_text())
    host, port = API.match(config["Addresses"]["API"]).groups()
    library.make_private = keep_what_is_configured
    front.Handler.node = node = library.Node(REPO, int(port))
    for peer in config.get("Peering", {}).get("Peers") or []:
        for address in peer["Addrs"]:
            node.keep_connected(f"{address}/p2p/{peer['ID']}")
    (REPO / "api").write_text(config["Addresses"]["API"])
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    server = front.Server(int(port), host)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while not stopped.is_set():
        time.sleep(0.1)  # not one long wait: a signal that Go's threads receive does not end it
    os._exit(0)  # calls into Kubo may still be waiting for blocks that never come


match sys.argv[1:]:
    case ["init"]:
        init()
    case ["bootstrap", "rm", "--all"]:
        configure("Bootstrap", [])
    case ["config", "--json", key, value]:
        configure(key, json.loads(value))
    case ["config", key, value]:
        configure(key, value)
    case ["id", "-f", form]:
        identify(form)
    case ["swarm", "peers"]:
        peers()
    case ["daemon"]:
        daemon()
    case other:
        sys.exit(f"the stand-in for ipfs does not know {other}")
