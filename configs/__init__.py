"""One file a model or task; an experiment each in `sweeps`."""
