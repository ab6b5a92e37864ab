from miglab.testing import sim_lab, sim_node  # noqa: F401
