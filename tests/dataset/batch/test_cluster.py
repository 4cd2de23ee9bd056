"""A real Dask cluster on this machine: a scheduler, and two workers that are processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dask
import distributed
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ikeanalyze.dataset.batch import cluster as dask_cluster
from ikeanalyze.dataset.batch.cluster import DaskWorkers
from ikeanalyze.dataset.batch.processes import LocalWorkers
from ikeanalyze.dataset.batch.task import TaskError
from tests.dataset.made import MESSAGES, batch, files, manifest, runs, small_groups, tables

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    scratch = dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("dask"))})
    with (
        scratch,
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as local_cluster,
    ):
        yield local_cluster


@pytest.fixture
def captures(tmp_path, monkeypatch):
    small_groups(monkeypatch)
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 24)
    Path("runs/empty.pcap").touch()
    return tmp_path


def test_the_same_files_as_by_processes(cluster, captures):
    label = ["{config}/loss{loss:float}/{run:int}.pcap"]
    summary = batch("by-cluster", "runs", workers=DaskWorkers(cluster.scheduler_address), label=label)
    batch("by-processes", "runs", workers=LocalWorkers(2), label=label)
    assert files(captures / "by-cluster") == files(captures / "by-processes")
    assert (summary.read, len(summary.failed), summary.handshakes) == (25, 1, 24)
    assert sum(shard["rows"]["messages"] for shard in manifest(captures / "by-cluster")["shards"]) == 24 * MESSAGES


def test_both_workers_run_tasks(cluster, captures):
    workers = DaskWorkers(cluster.scheduler_address)
    assert workers.width == 2
    seen = set()
    submit = workers.submit

    def noting(task):
        future = submit(task)
        future.add_done_callback(lambda done: seen.add(done.result().process))
        return future

    workers.submit = noting
    batch("out", "runs", workers=workers)
    assert len(seen) == 2
    assert not any(f"process {os.getpid()}" in item for item in seen)


def test_tasks_of_a_lost_worker_are_repeated(cluster, captures):
    for copy in range(2):
        shutil.copytree("runs", f"runs/copy{copy}")
    batch("whole", "runs", workers=LocalWorkers(2))
    workers = DaskWorkers(cluster.scheduler_address)
    pids = list(workers._client.run(os.getpid).values())

    def kill():
        while not list(captures.glob("out/captures/part-*")):
            time.sleep(0.005)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    batch("out", "runs", workers=workers)
    killer.join()
    assert tables(captures / "out") == tables(captures / "whole")


def test_a_missing_scheduler_is_an_error(monkeypatch):
    from ikeanalyze.dataset.batch import cluster as module

    monkeypatch.setattr(module, "_PATIENCE", "0.5s")
    with pytest.raises(TaskError, match=r"--cluster tcp://127.0.0.1:9: no scheduler there \("):
        DaskWorkers("tcp://127.0.0.1:9")
    with pytest.raises(TaskError, match="no scheduler there"):
        DaskWorkers("nonsense://x y")


@contextmanager
def scheduler(folder, environment):
    """A scheduler that is a process of its own, with a worker where one is wanted."""
    began = folder / "scheduler.json"
    command = [
        sys.executable,
        "-m",
        "dask",
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
    ]
    with subprocess.Popen(
        [*command, "--scheduler-file", str(began)],
        cwd=folder,
        env={**environment, "DASK_TEMPORARY_DIRECTORY": str(folder)},
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process, address_in(began, process)
        finally:
            process.kill()


def address_in(began, process):
    """The scheduler's address, when the file that it makes is there and whole."""
    while True:
        assert process.poll() is None
        with suppress(OSError, ValueError):
            return json.loads(began.read_text())["address"]
        time.sleep(0.02)


def test_a_scheduler_that_ends_is_an_error(captures, monkeypatch):
    monkeypatch.setattr(dask_cluster, "_PATIENCE", "2s")
    with scheduler(captures, os.environ) as (process, address):
        workers = DaskWorkers(address)
        assert workers.get_stall_reason() == f"the cluster {address} has no workers"
        threading.Timer(1, process.kill).start()
        with pytest.raises(TaskError, match=f"--cluster {address}: the scheduler is gone"):
            batch("out", "runs", workers=workers)
    assert manifest(captures / "out")["state"] == "unfinished"


@pytest.mark.parametrize("given_up", [False, True])
def test_a_scheduler_that_is_gone_is_no_disk_that_is_full(captures, monkeypatch, given_up):
    """What Dask raises then is an error of the system, as those of a disk are; or another one when it has given up."""
    monkeypatch.setattr(dask_cluster, "_PATIENCE", "2s")
    with scheduler(captures, os.environ) as (process, address):
        workers = DaskWorkers(address)
        process.kill()
        process.wait()
        if given_up:
            deadline = time.monotonic() + 30
            while workers._client.status != "closed":
                assert time.monotonic() < deadline
                time.sleep(0.05)
        with pytest.raises(TaskError, match=f"--cluster {address}: the scheduler is gone"):
            assert workers.width == 0  # is never; it asks the scheduler
        assert workers.get_stall_reason() == f"no connection to the scheduler {address}"
        with pytest.raises(TaskError, match="the scheduler is gone"):
            batch("out", "runs", workers=workers)


def test_a_scheduler_without_ikeanalyze(captures):
    (captures / "other").mkdir()
    (captures / "other" / "ikeanalyze.py").write_text("")  # found before any other
    environment = {**os.environ, "PYTHONPATH": str(captures / "other")}
    with scheduler(captures, environment) as (_, address):
        workers = DaskWorkers(address)
        with pytest.raises(TaskError, match="the scheduler or a worker does not have this version of ikeanalyze"):
            batch("out", "runs", workers=workers)


def test_a_missing_dask_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TaskError, match="pip install distributed"):
        DaskWorkers("tcp://127.0.0.1:9")


def certificate(folder, name, ca=None):
    """A certificate in PEM format, signed by `ca` or by itself, and the key; returns their paths and both objects."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer, signer = (subject, key) if ca is None else (ca[2].subject, ca[3])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    cert_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(cert_file), str(key_file), made, key


@pytest.fixture(scope="module")
def tls_cluster(tmp_path_factory):
    """A scheduler and a worker that accept only peers with a certificate of their authority."""
    folder = tmp_path_factory.mktemp("tls")
    ca = certificate(folder, "ca")
    node, me = certificate(folder, "node", ca), certificate(folder, "me", ca)
    other_ca = certificate(folder, "other-ca")
    stranger = certificate(folder, "stranger", other_ca)
    files = {
        f"tls_{role}_{kind}": node[kind == "key"]
        for role in ("scheduler", "worker", "client")
        for kind in ("cert", "key")
    }
    security = distributed.Security(require_encryption=True, tls_ca_file=ca[0], **files)
    with (
        dask.config.set({"temporary-directory": str(folder)}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
            protocol="tls://",
            security=security,
        ) as one,
    ):
        yield one.scheduler_address, ca[0], me[:2], stranger[:2], other_ca[0]


def run_batch(address, *options):
    return run_command("by-tls", "--cluster", address, *options)


def run_command(out, *options):
    command = [sys.executable, "-m", "ikeanalyze", "batch", "runs", "-o", out, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_cluster_with_tls_gives_the_same_files_as_processes(tls_cluster, captures):
    address, ca, (cert, key), _, _ = tls_cluster
    assert address.startswith("tls://127.0.0.1:")
    done = run_batch(address, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
    assert done.returncode == 3, done.stderr  # the empty capture
    assert run_command("by-processes", "--workers", "1").returncode == 3
    assert files(captures / "by-tls") == files(captures / "by-processes")


def test_a_client_of_another_authority_is_refused(tls_cluster, captures):
    address, ca, (cert, key), stranger, other_ca = tls_cluster
    for options in (
        ["--tls-ca", ca, "--tls-cert", stranger[0], "--tls-key", stranger[1]],  # the scheduler refuses
        ["--tls-ca", other_ca, "--tls-cert", cert, "--tls-key", key],  # the client refuses
    ):
        done = run_batch(address, *options)
        assert done.returncode == 1
        assert f"--cluster {address}: no scheduler there" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("address", "options", "problem"),
    [
        ("tcp://127.0.0.1:1", ["--tls-ca", "ca.pem"], "only for --cluster tls://"),
        ("tls://127.0.0.1:1", ["--tls-ca", "ca.pem"], "TLS needs --tls-ca, --tls-cert and --tls-key"),
        ("tls://127.0.0.1:1", ["--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c"], "cannot be read"),
    ],
)
def test_wrong_use_of_tls(captures, address, options, problem):
    done = run_batch(address, *options)
    assert done.returncode == 2
    assert problem in " ".join(done.stderr.split())


def test_tls_files_that_are_not_pem(captures, tmp_path):
    """Exit status 2 and the option with its file; the contents of a key never appear."""
    cert, key, _, _ = certificate(tmp_path, "me")
    _, other_key, _, _ = certificate(tmp_path, "other")
    text = tmp_path / "text.pem"
    text.write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    for ca, own, private, problem in (
        (str(text), cert, key, f"--tls-ca: {text} has no certificate in PEM"),
        (cert, str(text), key, f"--tls-cert: {text} has no certificate in PEM"),
        (cert, cert, str(text), f"--tls-key: {text} has no private key in PEM"),
        (cert, cert, other_key, f"--tls-key: {other_key} is not the key of {cert}"),
    ):
        done = run_batch("tls://127.0.0.1:1", "--tls-ca", ca, "--tls-cert", own, "--tls-key", private)
        assert (done.returncode, done.stdout) == (2, "")
        shown = "".join(done.stderr.split())
        assert problem.replace(" ", "") in shown
        assert "c2VjcmV0" not in shown
