"""Live ledgers, each named by its federation's file, are compared with each other and with runs at rest."""

import pytest

from fedgrove.chain.face.networks import anvil, has_anvil
from tests.node.cli.test_bad_input import FEDERATION, fedgrove
from tests.node.federation import Federation

pytestmark = pytest.mark.skipif(not has_anvil(), reason="no anvil: run make test, which installs it")
SECRET = "hidden-token"


def founded(network, directory, clients) -> str:
    """A ledger with members, before its first round; the path of its file, whose endpoint has a secret in it."""
    directory.mkdir()
    federation = Federation.found(network, directory, clients=clients)
    federation.register()
    url = network.url.replace("http://", f"http://member:{SECRET}@")
    reach = f'rpc = "{url}"\nledger = "{federation.deployment.ledger}"\n'
    path = directory / "federation.toml"
    path.write_text(f'{FEDERATION}\n[network]\n{reach}store = "disk:{directory / "store"}"\n')
    return str(path)


def test_live_ledgers_and_a_run_are_compared_and_no_page_quotes_an_endpoint(run, tmp_path):
    with anvil() as network:
        files = [founded(network, tmp_path / name, clients) for name, clients in (("one", 3), ("other", 4))]
        options = ("--export", str(tmp_path / "site"), "--index", str(tmp_path / "indexes"))
        result = fedgrove("explorer", *files, str(run.directory), *options, cwd=tmp_path)
    assert f"audit of {run.directory}: verified" in result.stdout, result.stderr
    assert all(f"audit of {name}: " in result.stdout for name in files)
    front = (tmp_path / "site" / "index.html").read_text()
    assert "one/federation.toml" in front and "other/federation.toml" in front
    assert sorted(path.name for path in (tmp_path / "site" / "runs").iterdir()) == ["1", "2", "3"]
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert pages and not any(SECRET in page for page in pages)
