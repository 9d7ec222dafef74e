"""How a model learns: the step, the loop, checkpoints and evaluation."""
