#!/bin/sh
# Runs molecule on podman: tools/molecule.sh ARGUMENT...        (for example: test --scenario-name default)
# The image is $MIG_MOLECULE_IMAGE, by default Debian's own; where no registry can be reached, one is made with
# mmdebstrap. Needs tools/venv.sh's environment first in PATH, and podman. Exit status 69: podman cannot be used here.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "$*" >&2; exit 69; }
command -v podman >/dev/null || fail "podman is missing: install it, for example with apt-get install podman"

made=localhost/mig-molecule:bookworm
if [ -z "${MIG_MOLECULE_IMAGE:-}" ]; then
    MIG_MOLECULE_IMAGE=docker.io/library/debian:12
    if podman image exists "$made" 2>/dev/null; then
        MIG_MOLECULE_IMAGE=$made
    elif ! timeout 120 podman pull --quiet "$MIG_MOLECULE_IMAGE" >/dev/null 2>&1; then
        echo "==> No registry within reach: making $made"
        MIG_MOLECULE_IMAGE=$made
        tools/molecule-image.sh bookworm ||
            fail "no container image could be made: set MIG_MOLECULE_IMAGE to a Debian or Ubuntu that podman has"
    fi
fi
export MIG_MOLECULE_IMAGE

starts() { podman run --rm --network=none "$MIG_MOLECULE_IMAGE" true; }
if [ -z "${CONTAINERS_CONF:-}" ] && ! starts >/dev/null 2>&1; then
    export CONTAINERS_CONF="$PWD/molecule/containers.conf"
    starts >/dev/null || fail "podman cannot start a container here, not even with molecule/containers.conf"
fi

exec molecule "$@"
