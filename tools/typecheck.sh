#!/bin/sh
# mypy over the pure rooms and the lab's command.
set -eu
cd "$(dirname "$0")/../collections"
mig=ansible_collections/nvidia/mig/plugins
exec mypy --config-file ../pyproject.toml "$mig/module_utils/geometry" "$mig/module_utils/errors.py" "$mig/module_utils/kubernetes" "$mig/module_utils/demand" "$mig/../extensions/eda/plugins"
