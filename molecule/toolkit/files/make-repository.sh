#!/bin/sh
# Makes signed repositories of NVIDIA's container toolkit from the programs below /build: for apt in /srv/repository, for
# dnf below it in rpm. Prints the key's fingerprint as its last line. Arguments: the toolkit's versions.
set -eu

repository=/srv/repository
export GNUPGHOME=/root/repository-key
mkdir -p "$repository/rpm" -m 0755
mkdir -p "$GNUPGHOME" -m 0700

# package NAME VERSION DEPENDS DESCRIPTION: a package of what lies in ./NAME, for either package manager
package() {
    mkdir -p "$1"
    cp -a "$1" "$1.deb"
    mkdir "$1.deb/DEBIAN"
    cat > "$1.deb/DEBIAN/control" <<CONTROL
Package: $1
Version: $2-1
Architecture: amd64
Maintainer: Nobody <nobody@example.invalid>
Depends: $3
Description: $4
CONTROL
    [ -n "$3" ] || sed -i '/^Depends:/d' "$1.deb/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$1.deb" "$repository/$1_$2-1_amd64.deb" > /dev/null

    # rpm writes versions of dependencies without parentheses.
    cat > "$1.spec" <<SPEC
Name: $1
Version: $2
Release: 1
Summary: $4
License: Apache-2.0
AutoReqProv: no
Requires: $(echo "$3" | tr -d '()')
%description
$4.
%install
cp -a $PWD/$1/. %{buildroot}
%files
$(cd "$1" && find . -type f -printf '/%P\n')
SPEC
    [ -n "$3" ] || sed -i '/^Requires:/d' "$1.spec"
    rpmbuild -bb --quiet --target x86_64 --define "_topdir $PWD/rpmbuild" --define "_rpmdir $repository/rpm" \
        --define '_rpmfilename %{name}-%{version}-%{release}.%{arch}.rpm' --define '_build_id_links none' \
        --define '__os_install_post %{nil}' --define '_binary_payload w1.gzdio' "$1.spec"
}

for version in "$@"; do
    cd "$(mktemp -d)"
    mkdir -p nvidia-container-toolkit-base/usr/bin
    for program in nvidia-ctk nvidia-cdi-hook nvidia-container-runtime; do
        cp "/build/$version/$program" nvidia-container-toolkit-base/usr/bin/
    done
    if [ -e "/build/$version/nvidia-cdi-refresh.service" ]; then
        mkdir -p nvidia-container-toolkit-base/usr/lib/systemd/system \
            nvidia-container-toolkit-base/etc/nvidia-container-toolkit
        cp "/build/$version/nvidia-cdi-refresh.service" "/build/$version/nvidia-cdi-refresh.path" \
            nvidia-container-toolkit-base/usr/lib/systemd/system/
        cp "/build/$version/nvidia-cdi-refresh.env" nvidia-container-toolkit-base/etc/nvidia-container-toolkit/
    fi
    package nvidia-container-toolkit-base "$version" "" "NVIDIA's own programs"
    package libnvidia-container1 "$version" "" "Stand-in for the library: an empty package"
    package libnvidia-container-tools "$version" "libnvidia-container1 (>= $version-1)" \
        "Stand-in for the library's command: an empty package"
    package nvidia-container-toolkit "$version" \
        "nvidia-container-toolkit-base (= $version-1), libnvidia-container-tools (>= $version-1)" \
        "Stand-in for the hook: an empty package with NVIDIA's dependencies"
done

# What a node of 2020 has: too old by a little.
cd "$(mktemp -d)"
package nvidia-docker2 2.4.0 "" "Stand-in for the last release that is too old: an empty package"

cd "$repository"
gpg --batch --quiet --passphrase '' --quick-generate-key "Container toolkit test repository" rsa2048 sign never
gpg --armor --export > key.asc
apt-ftparchive packages . > Packages
apt-ftparchive release . > Release
gpg --batch --yes --clearsign --output InRelease Release
rm Release
# As NVIDIA's: the index is signed, the packages are not (with a key that rpm can use).
createrepo_c --quiet rpm
gpg --batch --yes --armor --detach-sign rpm/repodata/repomd.xml
gpg --with-colons --list-keys | sed -n 's/^fpr:*\([0-9A-F]*\):$/\1/p' | head -n 1
