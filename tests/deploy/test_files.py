"""The files of deploy/: they parse, pin what they take, give services little, and call fedgrove rightly."""

import configparser
import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterable
from fnmatch import fnmatch

import numpy as np
import pytest
import tomli_w
import yaml
from packaging.requirements import Requirement

from fedgrove.chain.crypto.keys import save
from fedgrove.chain.face.networks import anvil, free_port, has_anvil
from fedgrove.node.roles.metrics import ServiceMetrics
from tests.deploy.commands import check, in_text
from tests.deploy.machines import ROOT
from tests.node.cli.test_status import make

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PODS = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "client.yaml").read_text()))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PAGE = (ROOT / "docs" / "deploy.md").read_text()
SERVICES = ("coordinator", "alice", "bob", "carol")
SECRET = re.compile(r"password|token|secret|mnemonic|private", re.IGNORECASE)
PINNED = re.compile(r".+:v?\d+\.\d+\.\d+[-.\w]*(@sha256:[0-9a-f]{64})?")
ACCOUNT = "10001:10001"


def instructions(word):
    """Arguments of a Dockerfile's instructions, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    return re.findall(rf"^{word} (.*)$", joined, re.MULTILINE)


def unit(path):
    """A unit's settings: lists of values by section and name."""
    read = configparser.RawConfigParser(strict=False, interpolation=None, dict_type=dict)
    read.optionxform = str
    read.read_string(path.read_text())
    pairs = re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE)
    assert read.sections() == ["Unit", "Service", "Install"]
    return {name: [value for each, value in pairs if each == name] for name, _ in pairs}


def client():
    (found,) = (each for each in PODS if each["kind"] == "StatefulSet")
    return found["spec"]


def container():
    (found,) = client()["template"]["spec"]["containers"]
    return found


# --- every command is one of fedgrove's ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICES)
def test_compose_calls_fedgrove_rightly(name):
    command = COMPOSE["services"][name]["command"]
    assert check(command) == ["coordinator" if name == "coordinator" else "client"]
    assert "--password-file" in command and "--metrics-port" in command


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_call_fedgrove_rightly(path):
    (line,) = unit(path)["ExecStart"]
    program, *arguments = line.split()
    assert program == "/opt/fedgrove/bin/fedgrove" and check(arguments) in (["client"], ["coordinator"])
    assert "--password-file %d/password" in line and "--metrics-port" in line


def test_the_pod_calls_fedgrove_rightly():
    assert check(container()["args"]) == ["client"]


def test_the_page_calls_fedgrove_rightly():
    joined = re.sub(r"\\\n\s*", " ", PAGE)
    within = re.findall(
        r"(?:exec alice fedgrove|run --rm fedgrove:\S+|coordinator(?=\s+deploy)) +(.+)$", joined, re.MULTILINE
    )
    assert [check(each.split()) for each in within] == [["doctor"], ["status"], ["deploy"]]
    assert [check(each) for each in in_text(PAGE)] == [["keys", "new"]]


def test_what_is_no_command_or_option_is_found():
    for wrong in (["clients"], ["client", "--confg", "x"], ["client", "--config", "x"], ["keys", "new", "a", "b"]):
        with pytest.raises(Exception, match=r".*"):
            check(wrong)


# --- everything is pinned --------------------------------------------------------------------------------------------


def test_images_are_pinned_to_a_version():
    bases = re.findall(r"^ARG BASE=(.+)$", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 1 and set(instructions("FROM")) == {"${BASE} AS build", "${BASE}"}
    images = [*bases, *(each["image"] for each in COMPOSE["services"].values()), container()["image"]]
    assert len(images) == 8 and all(PINNED.fullmatch(image) for image in images), images
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {image for image in images if "fedgrove:" in image} == {
        f"fedgrove:{version}",
        f"registry.example/fedgrove:{version}",
    }


def locked(name):
    lines = [line for line in (DEPLOY / name).read_text().splitlines() if not line.startswith("#")]
    found = [re.fullmatch(r"([a-z0-9.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})", line) for line in lines]
    assert all(found), "a line without a version or a hash"
    return {each[1]: each[2] for each in found}


def in_the_image(lines: Iterable[str]) -> list[Requirement]:
    """Those of the requirements that hold for the Python of the image."""
    found = [Requirement(line) for line in lines]
    return [each for each in found if each.marker is None or each.marker.evaluate({"python_version": "3.11"})]


def test_every_package_of_the_image_has_the_projects_version_and_a_hash():
    have = locked("requirements.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [project["dependencies"], *(extras[name] for name in ("learning", "privacy", "kmeans", "tables"))]
    for each in in_the_image(line for part in wanted for line in part):
        if each.name not in ("fedgrove", "torch"):
            assert each.specifier.contains(have[each.name.lower()], prereleases=True), each
    for each in in_the_image((ROOT / "constraints.txt").read_text().splitlines()):
        version = have.get(each.name.lower())
        assert version is None or each.specifier.contains(version, prereleases=True), f"{version} is not {each}"
    torch = next(each for each in extras["learning"] if each.startswith("torch"))
    assert f"ARG TORCH={torch}" in DOCKERFILE
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert [f"{name}=={version}" for name, version in locked("build-requirements.txt").items()] == build
    for line in instructions("RUN"):
        if "--requirement" in line:
            assert "--require-hashes" in line


# --- what the image is made of ---------------------------------------------------------------------------------------


def sources():
    """What the build copies from the repository, as its ignore file lets it."""
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    copied = [part for line in instructions("COPY") if "--from" not in line for part in line.split()[:-1]]
    assert sorted(copied) == sorted(let_in)
    return copied


def test_the_images_sources_make_the_whole_wheel(tmp_path):
    skipped = shutil.ignore_patterns("__pycache__")
    for name in sources():
        if name.startswith("deploy/"):
            assert (ROOT / name).is_file()
        elif (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "."]
    subprocess.run([*command, "--wheel-dir", str(tmp_path / "out")], cwd=tmp_path, check=True, timeout=300)
    (wheel,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(wheel) as content:
        packed = {name for name in content.namelist() if name.startswith("fedgrove/")}
    for place, inside in (("chain", "fedgrove/chain"), ("ipfs", "fedgrove/ipfs"), ("node", "fedgrove/node")):
        for path in (ROOT / place).rglob("*.py"):
            assert f"{inside}/{path.relative_to(ROOT / place)}" in packed
    assert any(fnmatch(name, "fedgrove/chain/artifacts/*.json") for name in packed)


def test_the_image_is_a_common_accounts():
    assert instructions("USER") == [ACCOUNT]
    final = DOCKERFILE.rpartition("FROM ")[2]
    assert final.index("USER") < final.index("ENTRYPOINT") and "RUN" not in final[final.index("USER") :]
    assert instructions("ENTRYPOINT") == ['["fedgrove"]']


# --- nobody gets more than it needs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_compose_gives_a_container_little(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["pids_limit"]
    assert service["mem_limit"] == service["memswap_limit"] == "2g"
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"]), "root"
    assert not {"ports", "privileged", "cap_add", "devices", "network_mode", "pid"} & service.keys()
    assert all(COMPOSE["networks"][network]["internal"] for network in service["networks"])
    assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys()
    for value in service.get("environment", {}).items():
        assert not SECRET.search(value[0]) or value[1].startswith("/run/secrets/") or value[0] == "IPFS_SWARM_KEY_FILE"


def test_compose_hands_each_member_its_own_secrets_as_files():
    for name in SERVICES:
        owner = "founder" if name == "coordinator" else name
        service = COMPOSE["services"][name]
        assert sorted(service["secrets"]) == sorted(["federation", f"{owner}_keystore", f"{owner}_password"])
        assert f"/run/secrets/{owner}_password" in service["command"] and service["user"] == ACCOUNT
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())
    assert {mount.split(":")[0] for name in SERVICES for mount in COMPOSE["services"][name]["volumes"]} >= {*SERVICES}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_hand_secrets_over_as_credentials(path):
    settings = unit(path)
    names = {value.split(":")[0] for value in settings["LoadCredential"]}
    assert names == {"federation", "keystore", "password", "store-password"}
    used = set(re.findall(r"%d/([a-z-]+)", path.read_text()))
    assert used == names
    assert settings["Environment"] == ["FEDGROVE_STORE_PASSWORD_FILE=%d/store-password", "OMP_NUM_THREADS=2"]
    assert settings["DynamicUser"] == ["yes"] and settings["RestartPreventExitStatus"] == ["2"]
    assert settings["MemoryMax"] == ["75%"] and settings["OOMPolicy"] == ["continue"] and settings["TasksMax"]


def test_the_pod_has_no_more_than_it_needs():
    pod, one = client()["template"]["spec"], container()
    assert client()["replicas"] == 1 and not pod["automountServiceAccountToken"]
    account = pod["securityContext"]
    assert account["runAsNonRoot"] and f"{account['runAsUser']}:{account['runAsGroup']}" == ACCOUNT
    assert account["seccompProfile"] == {"type": "RuntimeDefault"}
    own = one["securityContext"]
    assert own["readOnlyRootFilesystem"] and own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert one["resources"]["limits"].keys() == {"cpu", "memory"}
    assert [each["value"] for each in one["env"] if SECRET.search(each["name"])] == ["/etc/fedgrove/store-password"]
    assert all("valueFrom" not in each for each in one["env"])
    mounted = {mount["name"] for mount in one["volumeMounts"]}
    volumes = [each["name"] for each in pod["volumes"]]
    claims = [each["metadata"]["name"] for each in client()["volumeClaimTemplates"]]
    assert mounted == {*volumes, *claims}
    assert client()["selector"]["matchLabels"].items() <= client()["template"]["metadata"]["labels"].items()


def test_the_pod_takes_no_connections():
    (policy,) = (each["spec"] for each in PODS if each["kind"] == "NetworkPolicy")
    assert policy["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in policy
    assert policy["podSelector"]["matchLabels"].items() <= client()["template"]["metadata"]["labels"].items()
    assert all(rule.keys() == {"to", "ports"} for rule in policy["egress"])
    (space,) = (each for each in PODS if each["kind"] == "Namespace")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {each["metadata"].get("namespace", space["metadata"]["name"]) for each in PODS} == {"fedgrove"}


# --- it is healthy while it answers ----------------------------------------------------------------------------------


def probes():
    """The code of each probe; all ask for the metrics at the port that services are started with."""
    (check_,) = re.findall(r"HEALTHCHECK .*CMD (\[.*\])", re.sub(r"\\\n\s*", " ", DOCKERFILE))
    commands = [
        json.loads(check_),
        *(container()[kind]["exec"]["command"] for kind in ("startupProbe", "livenessProbe")),
    ]
    assert all(command[:2] == ["python", "-c"] for command in commands)
    return {command[2] for command in commands}


def test_the_probe_knows_a_service_that_answers_from_one_that_does_not():
    (code,) = probes()
    port = free_port()
    assert code.count(":9100/") == 1 and "--metrics-port=9100" in container()["args"]
    for name in SERVICES:
        assert COMPOSE["services"][name]["command"][-2:] == ["--metrics-port", "9100"]
    here = [sys.executable, "-c", code.replace(":9100/", f":{port}/")]
    assert subprocess.run(here, capture_output=True, timeout=60).returncode != 0
    metrics = ServiceMetrics()
    metrics.serve(port)
    try:
        assert subprocess.run(here, capture_output=True, timeout=60).returncode == 0
    finally:
        metrics.close()


@pytest.mark.skipif(not has_anvil(), reason="no anvil: run make test, which installs it")
def test_the_probe_knows_a_client_and_its_end(tmp_path):
    """The pod's own arguments, with files and port of this machine."""
    (code,), port = probes(), free_port()
    here = [sys.executable, "-c", code.replace(":9100/", f":{port}/")]
    with anvil() as network:
        federation = make(network, tmp_path)
        place = {"rpc": [network.url], "ledger": federation.deployment.ledger, "store": f"disk:{tmp_path / 'store'}"}
        tables = federation.config.to_tables() | {"network": place}
        (tmp_path / "federation.toml").write_text(tomli_w.dumps(tables))
        save(tmp_path / "keystore.json", federation.keys[0], "of a test", cost=2)
        (tmp_path / "password").write_text("of a test\n")
        (tmp_path / "data").mkdir()
        mine = federation.samples[0]
        np.savez(tmp_path / "data" / "train.npz", x_train=mine.x, y_train=mine.y)
        arguments = [
            each.replace("/etc/fedgrove", str(tmp_path)).replace("9100", str(port)) for each in container()["args"]
        ]
        client = subprocess.Popen([sys.executable, "-m", "fedgrove.node.cli", *arguments], cwd=tmp_path)
        try:
            while subprocess.run(here, capture_output=True, timeout=60).returncode:
                assert client.poll() is None
                time.sleep(0.2)
        finally:
            client.terminate()
            client.wait(60)
    assert subprocess.run(here, capture_output=True, timeout=60).returncode != 0


# --- by others' tools ------------------------------------------------------------------------------------------------


@pytest.fixture
def systemd(tmp_path):
    """A function that asks systemd-analyze about the units, with a program that is there in place of fedgrove's."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    places = []
    for path in UNITS:
        place = tmp_path / path.name.replace("@.", "@alice.")
        place.write_text(path.read_text().replace("/opt/fedgrove/bin/fedgrove", "/bin/true"))
        places.append(str(place))

    def analyze(*arguments):
        done = subprocess.run(
            ["systemd-analyze", *arguments, *places], capture_output=True, text=True, timeout=120, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return analyze


def test_systemd_accepts_the_units(systemd):
    told = systemd("verify", "--man=no")
    assert "deploy" not in told and not re.search(r"[Uu]nknown|ignoring|[Ff]ailed", told), told


def test_systemd_rates_the_units_as_safe(systemd):
    told = systemd("security", "--offline=yes", "--no-pager", "--threshold=20")
    levels = [float(each) for each in re.findall(r"exposure level for \S+: ([\d.]+)", told)]
    assert len(levels) == len(UNITS) and max(levels) <= 1.5, levels
    assert "rates them 1.5" in PAGE or max(levels) < 1.5


def test_the_nodes_script_is_a_shells():
    script = DEPLOY / "kubo" / "private.sh"
    assert subprocess.run(["sh", "-n", str(script)]).returncode == 0
    assert script.stat().st_mode & 0o111 and "./kubo/private.sh" in str(COMPOSE["services"]["kubo"]["volumes"])
