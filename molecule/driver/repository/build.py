#!/usr/bin/env python3
"""Builds and signs the repositories of the scenario: build.py DIRECTORY

Packages have NVIDIA's names, versions and dependencies among each other, as far as the role meets them,
and stand-ins inside: a kernel module is an empty object file with the true fields for modinfo, a daemon
sleeps. What NVIDIA's packages leave to DKMS, these do by themselves: put the module below /lib/modules.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("570.195.03", "580.65.06", "580.95.05")
DISTRIBUTION = ("535.261.03", "550.163.01")
LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
EPOCH = 3  # of NVIDIA's rpm packages


@dataclass(frozen=True)
class Package:
    """One stand-in; a dependency is on the same version, unless it says one."""

    name: str
    version: str
    source: str
    depends: tuple[str, ...] = ()
    module: str = ""  # kernel module that it brings: open, proprietary
    unit: str = ""  # service that it brings
    epoch: int = 0
    release: str = "1.el9"
    provides: str = ""  # a file that it is to be taken for

    def files(self, directory: Path) -> None:
        """Write its files below ``directory``."""
        if self.module:
            fields = {
                "version": self.version,
                "license": LICENSES[self.module],
                "srcversion": f"{abs(hash_of(self.module + self.version)):023X}",
            }
            target = directory / f"usr/src/nvidia-{self.version}/nvidia.ko"
            target.parent.mkdir(parents=True)
            object_file(fields, target)
        if self.unit:
            target = directory / f"lib/systemd/system/{self.unit}.service"
            target.parent.mkdir(parents=True)
            target.write_text(
                f"[Unit]\nDescription=Stand-in for {self.unit} {self.version}\n"
                "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
            )

    def after_install(self) -> str:
        """What DKMS would do."""
        if not self.module:
            return ""
        return (
            'kernel="/lib/modules/$(uname -r)"\n'
            'mkdir -p "$kernel/updates/dkms"\n'
            f'cp /usr/src/nvidia-{self.version}/nvidia.ko "$kernel/updates/dkms/nvidia.ko"\n'
            'touch "$kernel/modules.order" "$kernel/modules.builtin"\n'
            "depmod\n"
        )


def hash_of(text: str) -> int:
    """The same number in every run, unlike hash()."""
    return int.from_bytes(text.encode()[-11:], "big")


def object_file(fields: dict[str, str], target: Path) -> None:
    """An ELF object whose section .modinfo holds ``fields``."""
    raw = target.with_suffix(".raw")
    raw.write_bytes(b"".join(f"{name}={value}".encode() + b"\0" for name, value in fields.items()))
    run("objcopy", "-I", "binary", "-O", "elf64-x86-64", "--rename-section", ".data=.modinfo", raw, target)
    raw.unlink()


def run(*command: object, **options: object) -> str:
    """Run a program; its output."""
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
    return str(done.stdout.decode())


def make_key(home: Path, name: str, target: Path) -> None:
    """A key of its own, and its public half for the nodes."""
    home.mkdir(mode=0o700)
    gpg = ("gpg", "--homedir", home, "--batch", "--quiet")
    run(*gpg, "--passphrase", "", "--quick-generate-key", name, "rsa2048", "sign", "1y")
    target.write_text(run(*gpg, "--armor", "--export"))
    listed = run(*gpg, "--with-colons", "--list-keys").splitlines()
    fingerprint = next(line.split(":")[9] for line in listed if line.startswith("fpr:"))
    target.with_suffix(".fingerprint").write_text(fingerprint)


def debian(version: str) -> list[Package]:
    """What the repository debian12 holds of one version."""
    graphics = "nvidia-graphics-drivers"
    branch = version.split(".")[0]
    manager = "nvidia-fabricmanager" if int(branch) >= 580 else f"nvidia-fabricmanager-{branch}"
    return [
        Package("nvidia-open", version, graphics, ("nvidia-driver-cuda", "nvidia-kernel-open-dkms")),
        Package("cuda-drivers", version, "cuda-drivers", ("nvidia-driver-cuda", "nvidia-kernel-dkms")),
        Package("nvidia-driver-cuda", version, graphics, ("nvidia-persistenced",)),
        Package("nvidia-kernel-open-dkms", version, graphics, module="open"),
        Package("nvidia-kernel-dkms", version, graphics, module="proprietary"),
        Package("nvidia-persistenced", version, "nvidia-persistenced", unit="nvidia-persistenced"),
        Package(manager, version, "fabric-manager", unit="nvidia-fabricmanager"),
    ]


def debian_s_own(version: str) -> list[Package]:
    """What Debian itself has of one version, in non-free."""
    source = "nvidia-graphics-drivers"
    return [
        Package("nvidia-driver", version, source, ("nvidia-smi",)),
        Package("nvidia-smi", version, source),
        Package("nvidia-kernel-dkms", version, source, module="proprietary"),
        Package("nvidia-persistenced", version, "nvidia-persistenced", unit="nvidia-persistenced"),
    ]


def el(version: str) -> list[Package]:
    """What the repository rhel9 holds of one version."""
    kmods = ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms")
    source = "nvidia-driver"
    manager = "nvidia-fabricmanager" if int(version.split(".")[0]) >= 580 else "nvidia-fabric-manager"
    return [
        Package("nvidia-open", version, source, ("nvidia-driver-cuda", kmods[0]), epoch=EPOCH),
        Package("cuda-drivers", version, source, ("nvidia-driver-cuda", kmods[1])),
        Package("nvidia-driver-cuda", version, source, ("nvidia-persistenced",), epoch=EPOCH),
        Package(kmods[0], version, source, module="open", epoch=EPOCH),
        Package(kmods[1], version, source, module="proprietary", epoch=EPOCH),
        Package("nvidia-persistenced", version, source, unit="nvidia-persistenced", epoch=EPOCH),
        Package(manager, version, source, unit="nvidia-fabricmanager"),
    ]


def build_deb(package: Package, work: Path, target: Path) -> None:
    """One binary package for Debian."""
    root = work / "deb" / f"{package.name}-{package.version}"
    (root / "DEBIAN").mkdir(parents=True)
    package.files(root)
    depends = ", ".join(f"{name} (= {package.version}-1)" for name in package.depends)
    control = {
        "Package": package.name,
        "Source": package.source,
        "Version": f"{package.version}-1",
        "Architecture": "all",
        "Maintainer": "Scenario <scenario@example.org>",
        "Depends": depends,
        "Description": "stand-in of a molecule scenario",
    }
    if package.unit == "nvidia-fabricmanager":
        control |= {"Provides": package.unit, "Conflicts": package.unit, "Replaces": package.unit}
    text = "".join(f"{key}: {value}\n" for key, value in control.items() if value)
    (root / "DEBIAN/control").write_text(text)
    if package.after_install():
        script = root / "DEBIAN/postinst"
        script.write_text("#!/bin/sh\nset -e\n" + package.after_install())
        script.chmod(0o755)
    run("dpkg-deb", "--root-owner-group", "--build", root, target)


def build_rpm(package: Package, work: Path, target: Path) -> None:
    """One binary package for Enterprise Linux."""
    root = work / "rpm" / f"{package.name}-{package.version}"
    root.mkdir(parents=True)
    package.files(root)
    files = [f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file()]
    epochs = {other.name: other.epoch for other in el(VERSIONS[-1])}
    spec = [
        f"Name: {package.name}",
        f"Epoch: {package.epoch}",
        f"Version: {package.version}",
        f"Release: {package.release}",
        "Summary: stand-in of a molecule scenario",
        "License: GPL-3.0-or-later",
        "BuildArch: noarch",
        "AutoReqProv: no",
        *(f"Requires: {name} = {epochs[name]}:{package.version}" for name in package.depends),
        *([f"Provides: {package.provides}"] if package.provides else []),
        "%description",
        "A stand-in.",
        "%install",
        f"cp -a {root}/. %{{buildroot}}",
        *(["%post", package.after_install()] if package.after_install() else []),
        "%files",
        *files,
    ]
    path = work / f"{package.name}.spec"
    path.write_text("\n".join(spec) + "\n")
    run(
        "rpmbuild", "-bb", "--quiet", "--define", f"_topdir {work}/rpmbuild", "--define", f"_rpmdir {target}",
        "--define", "_rpmfilename %{name}-%{version}-%{release}.%{arch}.rpm",
        "--define", "_build_id_links none", "--define", "__strip /bin/true", path,
    )  # fmt: skip


def sign_deb(directory: Path, home: Path) -> None:
    """Index and signature of a flat repository."""
    (directory / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=directory))
    (directory / "Release").write_text(run("apt-ftparchive", "release", ".", cwd=directory))
    gpg = ("gpg", "--homedir", home, "--batch", "--yes", "--quiet")
    run(*gpg, "--clearsign", "--output", directory / "InRelease", directory / "Release")


def sign_rpm(directory: Path, home: Path) -> None:
    """Signatures of packages and index, and the module streams that lead to them."""
    run(
        "rpmsign", "--define", "__gpg /usr/bin/gpg", "--define", f"_gpg_path {home}",
        "--define", "_gpg_name example.org", "--addsign", *sorted(directory.glob("*.rpm")),
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    run("createrepo_c", "--quiet", directory)
    modules = directory.parent / "modules.yaml"
    modules.write_text("".join(f"---\n{json.dumps(document)}\n" for document in streams()))
    run("modifyrepo_c", "--mdtype=modules", modules, directory / "repodata")
    gpg = ("gpg", "--homedir", home, "--batch", "--yes", "--quiet")
    run(*gpg, "--armor", "--detach-sign", directory / "repodata/repomd.xml")


def streams() -> list[dict[str, object]]:
    """Module metadata: each branch has a stream, and the newest has one without a number."""
    branches = sorted({version.split(".")[0] for version in VERSIONS})
    names = {f"{branch}-{kind}": (branch, kind) for branch in branches for kind in ("open", "dkms")}
    names |= {"open-dkms": (branches[-1], "open"), "latest-dkms": (branches[-1], "dkms")}
    documents = []
    for name, (branch, kind) in names.items():
        excluded = {
            "open": ("cuda-drivers", "kmod-nvidia-latest-dkms"),
            "dkms": ("nvidia-open", "kmod-nvidia-open-dkms"),
        }[kind]
        artifacts = [
            f"{package.name}-{package.epoch}:{package.version}-1.el9.noarch"
            for version in VERSIONS
            for package in el(version)
            if version.startswith(f"{branch}.") and package.name not in excluded
        ]
        documents.append(
            {
                "document": "modulemd",
                "version": 2,
                "data": {
                    "name": "nvidia-driver",
                    "stream": name,
                    "version": 1,
                    "context": "scenario",
                    "arch": "noarch",
                    "summary": "stand-in",
                    "description": "stand-in",
                    "license": {"module": ["MIT"]},
                    "dependencies": [{}],
                    "profiles": {"default": {"rpms": ["nvidia-open" if kind == "open" else "cuda-drivers"]}},
                    "artifacts": {"rpms": artifacts},
                },
            }
        )
    return documents


def main() -> None:
    """Build all of it."""
    target = Path(sys.argv[1])
    work = target / "work"
    shutil.rmtree(target, ignore_errors=True)
    for name in ("deb", "own", "rpm"):
        (target / name).mkdir(parents=True)
    work.mkdir()
    make_key(work / "gpg", "Scenario <scenario@example.org>", target / "key.asc")
    make_key(work / "other", "Somebody Else <else@example.org>", target / "other.asc")
    for version in VERSIONS:
        for package in debian(version):
            build_deb(package, work, target / "deb")
        for package in el(version):
            build_rpm(package, work, target / "rpm")
    for version in DISTRIBUTION:
        for package in debian_s_own(version):
            build_deb(package, work, target / "own")
    kernel = run("uname", "-r").strip()
    build_deb(Package(f"linux-headers-{kernel}", "1", "linux"), work, target / "deb")
    for headers in (target / "deb").glob("linux-headers-*"):
        shutil.copy(headers, target / "own")
    # Enterprise Linux names it kernel-devel, with the kernel's version and release.
    name, version, release = f"kernel-devel-{kernel}".rsplit("-", 2)
    build_rpm(Package(name, version, "kernel", release=release), work, target / "rpm")
    # The node has these from Debian, of which its rpm database knows nothing.
    build_rpm(Package("python3-dnf-plugin-versionlock", "4.3.0", "dnf-plugins-core"), work, target / "rpm")
    build_rpm(Package("bash", "5.1.8", "bash", provides="/bin/sh"), work, target / "rpm")
    sign_deb(target / "own", work / "gpg")
    # The same again, signed by somebody else.
    for kind, sign in (("deb", sign_deb), ("rpm", sign_rpm)):
        shutil.copytree(target / kind, target / f"{kind}-other")
        sign(target / kind, work / "gpg")
        sign(target / f"{kind}-other", work / "other")
    for home in ("gpg", "other"):
        run("gpgconf", "--homedir", work / home, "--kill", "all")


if __name__ == "__main__":
    main()
