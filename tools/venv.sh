#!/bin/sh
# Makes or updates a virtual environment with this project in it: tools/venv.sh DIRECTORY [EXTRA]
# Needs a Python of at least 3.11 and a package index. Needs no root, not even where Debian keeps ensurepip
# in a package of its own. Does nothing if pyproject.toml has not changed since.
set -eu

venv=$1
extra=${2:-}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

say() { printf '==> %s\n' "$*"; }

usable() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.14 python3.11 python3; do
        # A version manager's shim may exist and still not run.
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "No Python of at least 3.11 found. Install one, or name it: make PYTHON=/path/to/python3" >&2
    exit 1
}

# Debian and Ubuntu leave ensurepip out of python3. Their pip wheel is an ordinary package: take it without installing.
debian_pip() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    work=$(mktemp -d)
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    (
        cd "$work"
        apt="-qq -o Dir::State::lists=$work/lists -o Dir::Cache=$work/cache -o Debug::NoLocking=1 -o APT::Sandbox::User="
        # shellcheck disable=SC2086
        apt-get $apt update && apt-get $apt download python3-pip-whl && dpkg-deb -x python3-pip-whl_*.deb tree
    ) >&2 || return 1
    wheel=$(ls "$work"/tree/usr/share/python-wheels/pip-*.whl)
    "$venv/bin/python" "$wheel/pip" install --quiet pip >&2
    rm -rf "$work"
}

make_venv() {
    python=$(find_python)
    say "Making $venv with $("$python" --version)"
    if "$python" -c 'import ensurepip' >/dev/null 2>&1; then
        "$python" -m venv "$venv"
        return
    fi
    "$python" -m venv --without-pip "$venv"
    if "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip --python "$venv/bin/python" install --quiet pip
    elif ! debian_pip; then
        rm -rf "$venv"
        echo "This Python has no ensurepip and no pip. Install python3-venv or python3-pip, then try again." >&2
        exit 1
    fi
}

stamp="$venv/.installed${extra:+-$extra}"
if [ -f "$stamp" ] && cmp -s pyproject.toml "$stamp"; then
    exit 0
fi
[ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
say "Installing the dependencies${extra:+ and the tools for '$extra'} into $venv (some minutes the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${extra:+[$extra]}"
cp pyproject.toml "$stamp"
