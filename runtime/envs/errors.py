"""What goes wrong with environments, in words that name the environment and the next step."""


class EnvError(ValueError):
    """The environment of a job cannot be used; the message says what is wrong, `hint` what to do or to type next."""

    def __init__(self, message: str, *, hint: str = "mend the environment, or name another with --env") -> None:
        super().__init__(message)
        self.hint = hint
