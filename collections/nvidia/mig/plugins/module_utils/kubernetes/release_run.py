# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What device_plugin_release and gfd_release do alike: read, compare, change, read again."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]
from ansible_collections.nvidia.mig.plugins.module_utils.errors import ClusterError, InputError, MigError
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes import charts
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.api import MISSING_COLLECTION, Api
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.helm import ChartSource, Helm
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.release import (
    Difference,
    Release,
    Target,
    check_gpu_operator,
    compare,
    find,
    removal,
)
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rights import denied
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.rollout import wait_for_rollout
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import select
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.sight import releases_in_sight
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.versions import parse_version

try:
    from ansible_collections.kubernetes.core.plugins.module_utils.helm import (  # type: ignore[import-untyped]
        AnsibleHelmModule,
    )
    from ansible_collections.kubernetes.core.plugins.module_utils.helm_args_common import (  # type: ignore[import-untyped]
        HELM_AUTH_ARG_SPEC,
        HELM_AUTH_MUTUALLY_EXCLUSIVE,
    )

    HAS_KUBERNETES_CORE = True
except ImportError:
    HAS_KUBERNETES_CORE = False
    # Enough to get past the options and say what is missing.
    HELM_AUTH_ARG_SPEC = {
        name: {"type": "raw", "no_log": name == "api_key"}
        for name in ("binary_path", "context", "kubeconfig", "host", "ca_cert", "validate_certs", "api_key")
    }
    HELM_AUTH_MUTUALLY_EXCLUSIVE = []

_OPERATOR = "gpu-operator"
_OPERATOR_SWITCH = {charts.DEVICE_PLUGIN: "devicePlugin", charts.FEATURE_DISCOVERY: "gfd"}


def argument_spec(chart: str, own: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """The options that both modules have, kubernetes.core's for access, and the module's own."""
    spec: Dict[str, Any] = copy.deepcopy(HELM_AUTH_ARG_SPEC)
    spec.update(
        {
            "state": {"type": "str", "choices": ["present", "planned", "absent"], "default": "present"},
            "strategy": {"type": "str", "choices": ["none", "single", "mixed"]},
            "configs": {"type": "dict"},
            "default_config": {"type": "str"},
            "version": {"type": "str", "aliases": ["chart_version"]},
            "chart_ref": {"type": "str", "default": chart},
            "chart_repo_url": {"type": "str"},
            "release_name": {"type": "str", "default": chart, "aliases": ["name"]},
            "namespace": {"type": "str", "default": chart, "aliases": ["release_namespace"]},
            "create_namespace": {"type": "bool", "default": True},
            "values": {"type": "dict", "default": {}},
            "adopt": {"type": "bool", "default": True},
            "hooks": {"type": "bool", "default": True},
            "wait": {"type": "bool", "default": True},
            "wait_timeout": {"type": "int", "default": 300},
        }
    )
    spec.update(own or {})
    return spec


def main(chart: str, own: Optional[Mapping[str, Any]] = None) -> None:
    """Run the module for a chart. ``own`` is the part of the argument spec that only this module has."""
    arguments = {
        "argument_spec": argument_spec(chart, own),
        "supports_check_mode": True,
        "mutually_exclusive": [("strategy", "configs"), *HELM_AUTH_MUTUALLY_EXCLUSIVE],
    }
    if not HAS_KUBERNETES_CORE:
        AnsibleModule(**arguments).fail_json(msg=MISSING_COLLECTION)
    module = AnsibleHelmModule(**arguments)
    try:
        result = Run(module, chart).result()
    except MigError as error:
        module.fail_json(**error.fail_args())
    module.exit_json(**result)


class Run:
    """One run of a release module."""

    def __init__(self, module: Any, chart: str) -> None:
        self.module = module
        self.params = module.params
        self.chart = chart
        self.helm = Helm(module)

    def result(self) -> Dict[str, Any]:
        wanted = self.params["state"]
        self.helm.check_version()
        if wanted != "absent":
            # What needs no cluster is checked first.
            selection = select(self.params["strategy"], self.params["configs"], self.params["default_config"])
            source = self._source()
        releases = self._releases()
        target = find(
            releases, self.chart, self.params["release_name"], self.params["namespace"], self.params["adopt"]
        )
        if wanted == "absent":
            return self._absent(target)
        operators = {one.name: self.helm.values(one) for one in releases if one.chart == _OPERATOR}
        check_gpu_operator(releases, operators, _OPERATOR_SWITCH[self.chart])
        values = self._values(selection, source, target)
        current = self.helm.values(target.release) if target.release else {}
        if target.adopted:
            values = self._adopt(target, current, values)
        difference = compare(target, current, self.chart, source.version, values)
        before = dict(current) if target.release else None
        for warning in charts.warnings(self.chart, source.version, selection, self.params.get("nfd")):
            self.module.warn(warning)
        changing = bool(difference.actions)
        dry = self.module.check_mode or wanted == "planned"
        if changing and dry:
            self.helm.template(source, target.name, target.namespace, values)
        elif not dry:
            try:
                target = self._carry_out(target, source, values, changing)
            except MigError as error:
                # Helm may have changed the cluster before it, or the wait after it, failed.
                error.details.update(
                    changed=bool(self.helm.commands),
                    actions=list(difference.actions),
                    commands=self.helm.commands,
                )
                raise
        return self._report(target, difference, changing and wanted != "planned", values, before)

    def _carry_out(
        self, target: Target, source: ChartSource, values: Mapping[str, Any], changing: bool
    ) -> Target:
        timeout = self.params["wait_timeout"]
        if changing:
            create = self.params["create_namespace"] and self._namespace_is_missing(target.namespace)
            try:
                self.helm.upgrade(source, target.name, target.namespace, values, create, timeout)
            except ClusterError as error:
                error.message += self._undo(target)
                raise
            target = self._read_back(target, source, values)
        if self.params["wait"] and target.release:
            daemonsets = self.helm.daemonsets(target.release)
            for warning in wait_for_rollout(Api(self.params), daemonsets, timeout):
                self.module.warn(warning)
        return target

    def _undo(self, target: Target) -> str:
        """Put back what was there before a failed attempt; what became of it, as the end of a sentence."""
        before, command = target.release, ""
        timeout = self.params["wait_timeout"]
        try:
            failed = self._find(target)
            if failed is None or (before is not None and failed.revision == before.revision):
                return "; nothing was applied"
            if before is None:
                command = f"helm uninstall {target.name} -n {target.namespace}"
                self.helm.uninstall(failed, timeout, self.params["hooks"])
                return "; what it had made was removed again"
            if before.status != "deployed":
                return f"; there is no good revision to go back to, as the one before is {before.status}"
            command = f"helm rollback {target.name} {before.revision} -n {target.namespace}"
            self.helm.rollback(before, timeout)
            return f"; the release was rolled back to revision {before.revision}"
        except ClusterError as error:
            advice = f", which takes: {command}" if command else ""
            return f"; and what it has left could not be undone{advice}: {error.message}"

    def _find(self, target: Target) -> Optional[Release]:
        """The release of this name, as it is now."""
        for one in self._releases():
            if (one.name, one.namespace, one.chart) == (target.name, target.namespace, self.chart):
                return one
        return None

    def _releases(self) -> List[Release]:
        """Releases of the cluster, as far as the account may look for them."""
        try:
            return self.helm.releases()
        except ClusterError as error:
            if denied(str(error.details.get("stderr", ""))) is None:
                raise
        # What the GPU Operator runs is no question where nothing is installed.
        operator = () if self.params["state"] == "absent" else (_OPERATOR,)
        charts_in_question = (*_OPERATOR_SWITCH, *operator)
        return releases_in_sight(self.helm, Api(self.params), charts_in_question, self.params["namespace"])

    def _namespace_is_missing(self, name: str) -> bool:
        """Helm would make it even if it is there, which takes a right that is not needed then."""
        try:
            return Api(self.params).get("Namespace", "v1", name) is None
        except ClusterError:
            return True

    def _source(self) -> ChartSource:
        reference, local, version = self.helm.source(
            self.chart, self.params["chart_ref"], self.params["chart_repo_url"], self.params["version"]
        )
        charts.row_for(self.chart, version)
        repository = ""
        if not local and "/" not in reference:
            repository = self.params["chart_repo_url"] or charts.default_repository(
                self.chart, parse_version(version)
            )
        return ChartSource(reference, repository, version, local)

    def _values(self, selection: Any, source: ChartSource, target: Target) -> Dict[str, Any]:
        interval = self.params.get("sleep_interval")
        if interval is not None and interval < 1:
            raise InputError(
                f"{interval} is not a number of seconds", path="sleep_interval", hint="1 or more"
            )
        extra = self.params["values"]
        if target.adopted and target.namespace == "default":
            # Where --generate-name without a namespace put it; helm cannot move a release.
            extra = {**charts.allow_default_namespace(self.chart, source.version), **extra}
        return charts.release_values(
            self.chart,
            source.version,
            selection,
            target.namespace,
            extra,
            self.params.get("nfd"),
            interval,
        )

    def _adopt(self, target: Target, current: Mapping[str, Any], values: Mapping[str, Any]) -> Dict[str, Any]:
        kept = charts.unlisted(current, values)
        text = f"{target.release} was made under another name; it is kept and managed under that name"
        if kept:
            names = ", ".join(charts.dotted_names(kept))
            text += f", with values that only it has: {names}. Add them to the option values to own them"
        self.module.warn(f"{text}.")
        return charts.merge(kept, values)

    def _read_back(self, target: Target, source: ChartSource, values: Mapping[str, Any]) -> Target:
        found = self._find(target)
        if found is None:
            raise ClusterError(f"helm reported success, but there is no release {target.name}")
        again = Target(target.name, target.namespace, found, target.adopted)
        left = compare(again, self.helm.values(found), self.chart, source.version, values)
        if left.actions:
            raise ClusterError(
                f"helm reported success, but the release is not as wanted: {'; '.join(left.actions)}",
                hint="another program may have changed it meanwhile; run again",
            )
        return again

    def _absent(self, target: Target) -> Dict[str, Any]:
        difference = removal(target)
        if target.release is not None and not self.module.check_mode:
            self.helm.uninstall(target.release, self.params["wait_timeout"], self.params["hooks"])
            if any((one.name, one.namespace) == (target.name, target.namespace) for one in self._releases()):
                raise ClusterError(f"helm reported success, but {target.release} is still there")
        gone = Target(target.name, target.namespace, None, target.adopted)
        return self._report(gone, difference, bool(difference.actions), {}, None)

    def _report(
        self,
        target: Target,
        difference: Difference,
        changed: bool,
        values: Mapping[str, Any],
        before: Optional[Mapping[str, Any]],
    ) -> Dict[str, Any]:
        release = target.release
        header = f"release {target.name} in namespace {target.namespace}"
        return {
            "changed": changed,
            "actions": list(difference.actions),
            "release": {
                "name": target.name,
                "namespace": target.namespace,
                "chart": self.chart,
                "version": release.version if release else None,
                "app_version": release.app_version if release else None,
                "revision": release.revision if release else 0,
                "status": release.status if release else "absent",
                "adopted": target.adopted,
                "user_values": dict(values),
                "previous_values": before,
            },
            "commands": self.helm.commands,
            "diff": {
                "before": difference.before,
                "after": difference.after,
                "before_header": header,
                "after_header": header,
            },
        }
