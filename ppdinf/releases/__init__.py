"""What was published: the release object, what it knows of the mechanism that made it, and its file.

mechanism   base class of mechanisms, with the registry of their kinds
release     the noisy table with everything public
file        the format, and writing
reading     reading, after verification
rates       what a model of rates takes from a release
"""

from ppdinf.releases.reading import read_release as read_release
from ppdinf.releases.release import Release as Release

__all__ = ["Release", "read_release"]
