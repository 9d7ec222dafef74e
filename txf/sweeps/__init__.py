"""How experiments are made of runs: axes, members, arms, and what they say together."""
