"""What goes wrong with environments, in words that name the environment and the next step."""


class EnvError(ValueError):
    """The environment of a job cannot be used; the message says what is wrong and what to do about it."""
