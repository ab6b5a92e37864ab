#!/bin/sh
# Runs the molecule scenarios: tools/molecule.sh [ARGUMENT...]        (default: test --all)
# The image is $MIG_MOLECULE_IMAGE, by default Debian's own; where no registry can be reached, one is made with
# mmdebstrap. Needs tools/venv.sh's environment first in PATH, and podman.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "$*" >&2; exit 1; }
command -v podman >/dev/null || fail "podman is missing: install it, for example with apt-get install podman"

export MIG_MOLECULE_IMAGE="${MIG_MOLECULE_IMAGE:-docker.io/library/debian:12}"
if ! podman image exists "$MIG_MOLECULE_IMAGE" && ! podman pull --quiet "$MIG_MOLECULE_IMAGE" >/dev/null; then
    MIG_MOLECULE_IMAGE=localhost/mig-molecule:bookworm
    echo "==> No registry within reach: taking $MIG_MOLECULE_IMAGE"
    podman image exists "$MIG_MOLECULE_IMAGE" || tools/molecule-image.sh bookworm ||
        fail "Set MIG_MOLECULE_IMAGE to an image that podman has: a Debian or Ubuntu, at best with python3"
fi

starts() { podman run --rm --network=none "$MIG_MOLECULE_IMAGE" true; }
if [ -z "${CONTAINERS_CONF:-}" ] && ! starts >/dev/null 2>&1; then
    export CONTAINERS_CONF="$PWD/molecule/containers.conf"
    starts || fail "podman cannot start a container here, not even with molecule/containers.conf"
    echo "==> podman needs molecule/containers.conf here"
fi

[ $# -gt 0 ] || set -- test --all
exec molecule "$@"
