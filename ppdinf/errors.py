"""What ppdinf raises when it refuses an input.

Every message names the row, label or field and says what to do; none contains a
confidential value.
"""

__all__ = [
    "BudgetError",
    "CountError",
    "DiagnosisWarning",
    "InternalError",
    "InvariantError",
    "LabelError",
    "ModelError",
    "PpdinfError",
    "PrivacyError",
    "PrivacyWarning",
    "ReleaseFileError",
    "RoundingError",
    "SessionError",
    "SignatureError",
    "WriteError",
]


class PpdinfError(Exception):
    """Base class of every error that ppdinf raises on purpose."""


class CountError(PpdinfError, ValueError):
    """A table holds something that is not a count."""


class LabelError(PpdinfError, ValueError):
    """Labels are duplicated, missing, misaligned or indistinguishable to the eye."""


class InvariantError(PpdinfError, ValueError):
    """Public statements are malformed, contradict each other or cannot be met."""


class InternalError(PpdinfError, RuntimeError):
    """A fault of ppdinf, found before anything was returned. The input is not the cause."""


class PrivacyError(PpdinfError, ValueError):
    """A privacy parameter or a way of drawing noise that has no guarantee."""


class BudgetError(PrivacyError):
    """A release that would spend more than is left of a budget, which nothing was taken from."""


class ReleaseFileError(PpdinfError, ValueError):
    """A release file is truncated, edited, foreign or from another version; or one would be lost."""


class RoundingError(PpdinfError, ArithmeticError):
    """Rounding of floating-point numbers keeps a construction from its stated accuracy."""


class SessionError(PpdinfError, ValueError):
    """A session file was edited or damaged, is no session file, or is of another budget than was asked for."""


class SignatureError(PpdinfError, ValueError):
    """A file is not signed by the key that was named, or a key cannot be used."""


class WriteError(PpdinfError, OSError):
    """A file cannot be written: no room, no right, no such folder. Nothing of it is left, and what was there is."""


class ModelError(PpdinfError, ValueError):
    """A statistical model does not fit the release it is given."""


class PrivacyWarning(UserWarning):
    """Something is published with less protection than a reader may expect."""


class DiagnosisWarning(UserWarning):
    """A posterior should not be read yet."""
