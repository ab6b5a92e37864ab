"""The session's lab, for tests that need a Kubernetes API."""

from miglab.testing_cluster import lab, lab_cluster  # noqa: F401
