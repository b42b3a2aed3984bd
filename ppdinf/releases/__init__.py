"""What was published: the release and its file.

Rule: nothing here has seen a confidential count.

mechanism         what a release knows of how it was made: a name in files, a promise, and perhaps a likelihood
prepared_release  a release before it is drawn: everything that is known of it while no privacy is spent yet
rate_inputs       what a model of rates takes from a release: persons at risk, counts of an earlier time, labels
                  with effects
release           A release: the noisy table, what is public, and the mechanism that made it
release_file      the release file: a zip of canonical JSON and CSV that R, Excel and people can read
release_reader    reading release files, every byte of which is verified before it is believed
sealed            a sealed archive: a zip of one JSON manifest and CSV parts, every byte of which is accounted for
signatures        signatures of files: who vouches for them, by a key that only they hold
"""

from ppdinf.releases.release import Release as Release
from ppdinf.releases.release_reader import read_release as read_release

__all__ = ["Release", "read_release"]
