#!/bin/sh
# What the NVIDIA kernel modules and nvidia-modprobe make on a node, for the simulated GPU 0: device files, and the
# table of MIG capabilities. The devices lead nowhere.
set -eu

caps=/proc/driver/nvidia-caps
mountpoint --quiet /proc/driver || mount -t tmpfs tmpfs /proc/driver
mkdir -p "$caps" /dev/nvidia-caps

{
    echo "config 1"
    echo "monitor 2"
    minor=3
    for gi in $(seq 0 14); do
        echo "gpu0/gi$gi/access $minor"
        minor=$((minor + 1))
        for ci in $(seq 0 7); do
            echo "gpu0/gi$gi/ci$ci/access $minor"
            minor=$((minor + 1))
        done
    done
} > "$caps/mig-minors"

node() { [ -e "$1" ] || mknod -m 0666 "$1" c "$2" "$3"; }
node /dev/nvidia0 195 0
node /dev/nvidiactl 195 255
while read -r _ minor; do
    node "/dev/nvidia-caps/nvidia-cap$minor" 237 "$minor"
done < "$caps/mig-minors"
