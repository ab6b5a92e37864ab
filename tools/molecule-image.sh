#!/bin/sh
# Makes the container image of the molecule scenarios without a container registry: tools/molecule-image.sh [SUITE]
# SUITE is a Debian suite (bookworm). Needs mmdebstrap, podman and a Debian mirror. Prints the image's name.
set -eu

suite=${1:-bookworm}
image=localhost/mig-molecule:$suite

for program in mmdebstrap podman; do
    command -v "$program" >/dev/null || { echo "$program is missing: apt-get install $program" >&2; exit 1; }
done
# mmdebstrap's '-' writes the tar archive to its standard output: nothing is left behind.
mmdebstrap --quiet --variant=minbase --include=python3 "$suite" - | podman import --quiet - "$image" >&2
echo "$image"
