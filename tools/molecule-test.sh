#!/bin/sh
# Tests the molecule scenarios one after the other: tools/molecule-test.sh [SCENARIO...]        (default: all of them)
# Where podman is missing or cannot start a container they are left out, in one line and with exit status 0. In CI
# (CI=true), root gets podman from apt first. What molecule says is in build/molecule/; of a failure the end is shown.
set -u
cd "$(dirname "$0")/.."

say() { echo "==> molecule: $*"; }

if ! command -v podman >/dev/null && [ "${CI:-}" = true ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say "CI gets podman from apt"
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes podman runc mmdebstrap >/dev/null
fi

[ $# -gt 0 ] || set -- $(cd molecule && ls -d */molecule.yml | xargs -n 1 dirname)
mkdir -p build/molecule
failed=
for scenario; do
    log=build/molecule/$scenario.log
    begin=$(date +%s)
    timeout 2400 tools/molecule.sh test --scenario-name "$scenario" >"$log" 2>&1
    status=$?
    took=$(($(date +%s) - begin))
    case $status in
        0) say "$scenario passed ($took s)" ;;
        69)
            say "left out: $(tail -n 1 "$log")"
            exit 0
            ;;
        *)
            tail -n 100 "$log"
            say "$scenario FAILED with exit status $status ($took s); the whole log: $log"
            failed="$failed $scenario"
            ;;
    esac
done
[ -z "$failed" ] || { say "FAILED:$failed"; exit 1; }
