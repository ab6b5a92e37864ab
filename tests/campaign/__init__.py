"""The fault campaign: the node's modules against everything that can go wrong at any moment.

``python tests/campaign --help`` tells how to run it. `layouts` says what is tried, `bench` makes simulated
nodes and runs the real modules on them, `judge` compares what a module said with what the simulator has,
`kinds` are the kinds of cases, `run` spreads them over the cores.
"""
