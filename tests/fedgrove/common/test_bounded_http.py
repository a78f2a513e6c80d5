"""What lies between this machine and a server is named: its certificate, TLS, or a proxy."""

import http.server
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedgrove.chain.network.endpoint import Endpoint, Fault
from fedgrove.common.bounded_http import way_fault
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import StoreError, Unreachable

DIGEST = bytes(32)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost that nobody signed, with its key, in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(1))
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = made.add_extension(here, critical=False).sign(key, hashes.SHA256())
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(text + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture(params=["https", "http"])
def server(request, certificate):
    """A server's scheme and port."""
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    if request.param == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        served.socket = context.wrap_socket(served.socket, server_side=True)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield request.param, served.server_port
    served.shutdown()
    served.server_close()


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(http.server.ThreadingHTTPServer, "handle_error", lambda *_: None)
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "REQUESTS_CA_BUNDLE",
    ):
        monkeypatch.delenv(name, raising=False)


def test_a_certificate_or_a_missing_one_is_named(server):
    scheme, port = server
    said = "has a certificate that this machine does not accept" if scheme == "https" else "does not speak TLS"
    with pytest.raises(Fault) as fault:
        Endpoint(f"https://127.0.0.1:{port}", 10).look()
    assert said in fault.value.why and ("REQUESTS_CA_BUNDLE" if scheme == "https" else "http://") in fault.value.advice
    with pytest.raises(Unreachable, match=said):
        KuboStore(f"https://127.0.0.1:{port}", 10).has(DIGEST)


@pytest.mark.parametrize("server", ["https"], indirect=True)
def test_what_the_sentence_advises_helps(server, certificate, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with pytest.raises(Fault, match="answers with HTTP status 501"):
        Endpoint(f"https://127.0.0.1:{server[1]}", 10).look()
    with pytest.raises(StoreError) as fault:
        KuboStore(f"https://127.0.0.1:{server[1]}", 10).has(DIGEST)
    assert "certificate" not in str(fault.value) and "reached" not in str(fault.value)


def test_a_proxy_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    for url in ("https://chain.example", "http://chain.example"):
        with pytest.raises(Fault) as fault:
            Endpoint(url, 10).look()
        assert "through the proxy" in fault.value.why and "NO_PROXY" in fault.value.advice


def test_a_server_that_is_not_there_is_nobody_else_s_fault():
    with pytest.raises(Fault, match="does not answer"):
        Endpoint("http://127.0.0.1:1", 10).look()
    with pytest.raises(Unreachable, match="cannot be reached: start it"):
        KuboStore("http://127.0.0.1:1", 10).has(DIGEST)
    assert way_fault(OSError("x")) is None
