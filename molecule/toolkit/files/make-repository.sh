#!/bin/sh
# Makes a signed apt repository of NVIDIA's container toolkit in /srv/repository, from the programs below /build.
# Prints the key's fingerprint as its last line. Arguments: the toolkit's versions.
set -eu

repository=/srv/repository
export GNUPGHOME=/root/repository-key
mkdir -p "$repository" -m 0755
mkdir -p "$GNUPGHOME" -m 0700

# package NAME VERSION DEPENDS DESCRIPTION: a package of what lies in ./NAME
package() {
    mkdir -p "$1/DEBIAN"
    cat > "$1/DEBIAN/control" <<CONTROL
Package: $1
Version: $2-1
Architecture: amd64
Maintainer: Nobody <nobody@example.invalid>
Depends: $3
Description: $4
CONTROL
    [ -n "$3" ] || sed -i '/^Depends:/d' "$1/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$1" "$repository" > /dev/null
}

for version in "$@"; do
    work=$(mktemp -d)
    cd "$work"
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
gpg --with-colons --list-keys | sed -n 's/^fpr:*\([0-9A-F]*\):$/\1/p' | head -n 1
