"""Errors and warnings of ppdinf.

Every message names the row, label or field and states a remedy; no message contains a confidential value.
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
    "WorkersError",
    "WriteError",
]


class PpdinfError(Exception):
    """Base class of all errors of ppdinf."""


class CountError(PpdinfError, ValueError):
    """A table contains a value that is not a count."""


class LabelError(PpdinfError, ValueError):
    """Labels are duplicated, missing, misaligned or look alike."""


class InvariantError(PpdinfError, ValueError):
    """Public statements are malformed, contradict each other or cannot be satisfied."""


class InternalError(PpdinfError, RuntimeError):
    """A bug in ppdinf, detected before a result was returned. The input is not the cause."""


class PrivacyError(PpdinfError, ValueError):
    """A privacy parameter is invalid, or a method of drawing noise has no guarantee."""


class BudgetError(PrivacyError):
    """A release would exceed the remaining budget. Nothing was spent."""


class ReleaseFileError(PpdinfError, ValueError):
    """A release file is truncated, edited, of another kind or version, or would be overwritten."""


class RoundingError(PpdinfError, ArithmeticError):
    """Floating-point rounding prevents the stated accuracy of a construction."""


class SessionError(PpdinfError, ValueError):
    """A session file was edited or damaged, is not a session file, or has another budget than the requested budget."""


class SignatureError(PpdinfError, ValueError):
    """A file is not signed by the named key, or a key cannot be used."""


class WorkersError(PpdinfError, ValueError):
    """`workers` is not a positive number of processes or a connected client of a cluster."""


class WriteError(PpdinfError, OSError):
    """A file cannot be written: disk full, no permission, or no such folder. An existing file is not changed."""


class ModelError(PpdinfError, ValueError):
    """A statistical model is not compatible with the release."""


class PrivacyWarning(UserWarning):
    """A publication is less protected than a reader may expect."""


class DiagnosisWarning(UserWarning):
    """A posterior must not be interpreted yet."""
