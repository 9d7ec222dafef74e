"""The two kinds of failure a person meets: a wrong request and a run that went wrong."""


class UserError(ValueError):
    """The request was wrong: flags, config, or unusable input. Commands exit with 2."""


class RunError(RuntimeError):
    """Something failed at run time, and everything already made is kept. Commands exit with 1."""


class Stopped(RuntimeError):
    """The run was asked to stop; it has saved itself, and the same command continues it."""
