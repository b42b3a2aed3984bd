"""The release object and its file format."""

from ppdinf.releases.file import read_release as read_release
from ppdinf.releases.release import Release as Release

__all__ = ["Release", "read_release"]
