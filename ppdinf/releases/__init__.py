"""Published releases and their files.

Rule: this package does not see confidential counts.

kept_statements   Public statements of a released table: sums that its noise keeps, and statements published otherwise.
mechanism         The base class of mechanisms: kind in files, guarantee, and optional likelihood.
prepared_release  A validated and planned release, before its noise is drawn and any privacy is spent.
rate_inputs       Inputs of a model of rates from a release: exposures, earlier counts, labels with effects.
release           A release: the noisy table, the public statements, and the mechanism.
release_file      The release file: a zip of canonical JSON and CSV that R, Excel and people can read.
release_reader    Reading of release files, with verification of every byte.
sealed            A sealed archive: a zip of one JSON manifest and CSV parts, verified byte by byte.
selection         A part of a release, selected by labels, whose public sums stay whole.
signatures        Ed25519 signatures of files.
"""

from ppdinf.releases.release import Release as Release
from ppdinf.releases.release_reader import read_release as read_release

__all__ = ["Release", "read_release"]
