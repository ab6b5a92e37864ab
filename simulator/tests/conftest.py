from miglab.testing import sim_node  # noqa: F401
