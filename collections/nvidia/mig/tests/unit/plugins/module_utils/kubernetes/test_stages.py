# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of upgrades and labels: no label names a config that the release lacks, at any time."""

from __future__ import annotations

from ansible_collections.nvidia.mig.plugins.filter.release_settings import release_settings
from ansible_collections.nvidia.mig.plugins.module_utils.kubernetes.selection import config_document
from hypothesis import given, settings
from hypothesis import strategies as st

CONFIG, PRESENT = "nvidia.com/device-plugin.config", "nvidia.com/gpu.present"
PLAIN = ("none", "single", "mixed")


def shared(replicas, strategy="none"):
    resource = {"name": "nvidia.com/gpu", "replicas": replicas}
    return {"strategy": strategy, "sharing": {"timeSlicing": {"resources": [resource]}}}


class Cluster:
    """A release and node labels, and what each node's pods make of them."""

    def __init__(self, hosts):
        self.release = None
        self.labels = {host: {} for host in hosts}

    def values(self):
        """As helm has them."""
        if self.release is None:
            return None
        if self.release["strategy"] is not None:
            return {"migStrategy": self.release["strategy"]}
        documents = {
            name: config_document({"sharing": None, **config})
            for name, config in self.release["configs"].items()
        }
        return {"config": {"map": documents, "default": self.release["default_config"]}}

    def nodes(self):
        return [{"metadata": {"name": name, "labels": dict(has)}} for name, has in self.labels.items()]

    def has(self, host):
        """What the node's pods serve; None without pods. They end on a label that names nothing."""
        if self.release is None or PRESENT not in self.labels[host]:
            return None
        if self.release["strategy"] is not None:
            return {"strategy": self.release["strategy"]}
        name = self.labels[host].get(CONFIG) or self.release["default_config"]
        assert name in self.release["configs"], f"{host}: specified config {name} does not exist"
        return self.release["configs"][name]

    def write(self, labels):
        for host, wanted in labels.items():
            for name, value in wanted.items():
                if value is None:
                    assert self.labels[host].pop(name, None) is not None, "nothing is changed by it"
                else:
                    self.labels[host][name] = value

    def settings(self, hosts, **options):
        return release_settings(hosts, self.values(), self.nodes(), **options)

    def bring(self, found):
        """Carry the stages out; after each step, what every host has."""
        seen = []
        for stage in found["stages"]:
            self.write(stage["labels_before"])
            seen.append({host: self.has(host) for host in self.labels})
            self.release = stage["release"]
            seen.append({host: self.has(host) for host in self.labels})
            self.write(stage["labels_after"])
            seen.append({host: self.has(host) for host in self.labels})
        return seen


def plain(wish):
    return {"strategy": wish} if isinstance(wish, str) else wish


HOSTS = ("a", "b", "c")
WISHES = st.fixed_dictionaries(
    {host: st.sampled_from([*PLAIN, shared(2), shared(4), shared(2, "single")]) for host in HOSTS}
)


@settings(deadline=None)
@given(st.lists(WISHES, min_size=1, max_size=4), st.data())
def test_every_node_has_its_old_settings_or_its_new_ones(history, data):
    cluster = Cluster(HOSTS)
    for wishes in history:
        kept = data.draw(st.sets(st.sampled_from(HOSTS), max_size=2)) if cluster.release else set()
        before = {host: cluster.has(host) for host in HOSTS}
        found = cluster.settings(wishes, kept=sorted(kept))
        after = {host: before[host] if host in kept else plain(wishes[host]) for host in HOSTS}
        for seen in cluster.bring(found):
            for host in HOSTS:
                assert seen[host] in (before[host], after[host])
        assert {host: cluster.has(host) for host in HOSTS} == after
        [again] = cluster.settings(wishes, kept=sorted(kept))["stages"]
        assert again == {"release": cluster.release, "labels_before": {}, "labels_after": {}}


@settings(deadline=None)
@given(WISHES, WISHES)
def test_what_check_mode_predicts_is_what_happens(first, wishes):
    """As in a run of the main job: the releases serve both, the nodes switch, and the rest goes."""
    cluster = Cluster(HOSTS)
    cluster.bring(cluster.settings(first))
    everyone = {"kept": HOSTS, "switching": HOSTS}
    during = cluster.settings(wishes, **everyone)
    predicted = cluster.settings(wishes, predicted=during)
    cluster.bring(during)
    for label in during["switched_labels"].values():
        assert label[CONFIG] in cluster.release["configs"]
    cluster.write(during["switched_labels"])
    assert predicted == cluster.settings(wishes)
    cluster.bring(predicted)
    assert {host: cluster.has(host) for host in HOSTS} == {host: plain(wishes[host]) for host in HOSTS}


def test_a_new_config_comes_before_its_label_and_an_old_one_goes_after_it():
    cluster = Cluster("ab")
    cluster.bring(cluster.settings({"a": shared(2), "b": "mixed"}))
    old = cluster.labels["a"][CONFIG]
    first, last = cluster.settings({"a": shared(4), "b": "mixed"})["stages"]
    new = first["labels_after"]["a"][CONFIG]
    assert {old, new} <= set(first["release"]["configs"])
    assert new in last["release"]["configs"] and old not in last["release"]["configs"]
    assert first["labels_before"] == last["labels_before"] == last["labels_after"] == {}


def test_what_the_release_serves_already_is_labelled_first():
    cluster = Cluster("ab")
    cluster.bring(cluster.settings({"a": "none", "b": "mixed"}))
    [only] = cluster.settings({"a": "single", "b": "mixed"})["stages"]
    assert only["labels_before"] == {"a": {CONFIG: "single", PRESENT: "true"}}


def test_a_label_stays_until_nobody_reads_it():
    """Without it the node would get the default config for a moment."""
    cluster = Cluster("ab")
    cluster.bring(cluster.settings({"a": "none", "b": "mixed"}))
    [only] = cluster.settings({"a": "none", "b": "none"})["stages"]
    assert only["release"]["strategy"] == "none"
    assert only["labels_after"]["a"] == {CONFIG: None, PRESENT: "true"}


def test_a_config_that_somebody_elses_node_names_stays():
    cluster = Cluster("ab")
    cluster.bring(cluster.settings({"a": shared(2), "b": "mixed"}))
    name = cluster.labels["a"][CONFIG]
    cluster.labels["alien"] = {CONFIG: name, PRESENT: "true"}
    cluster.bring(cluster.settings({"a": "none", "b": "mixed"}))
    assert cluster.has("alien") == shared(2)
    assert cluster.labels["alien"] == {CONFIG: name, PRESENT: "true"}
    del cluster.labels["alien"]
    cluster.bring(cluster.settings({"a": "none", "b": "mixed"}))
    assert name not in cluster.release["configs"]


def test_a_config_with_keys_that_nobody_knows_is_not_taken_over():
    """Its label is replaced once the release has the new config; nothing else could be written."""
    foreign = "version: v1\nflags: {migStrategy: none}\nsharing: {timeSlicing: {resources: [{devices: all}]}}"
    deployed = {"config": {"map": {"x": foreign}, "default": "x"}}
    node = {"metadata": {"name": "a", "labels": {CONFIG: "x", PRESENT: "true"}}}
    first, last = release_settings({"a": shared(2)}, deployed, [node])["stages"]
    assert first["release"] == last["release"]
    assert first["labels_after"] == {"a": {CONFIG: None, PRESENT: "true"}}
