"""One file an experiment: its question, its arms, and what it claims before it runs."""
