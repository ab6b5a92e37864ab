"""The lab: a simulated NVML, simulated GPU nodes, and the command that drives them."""
