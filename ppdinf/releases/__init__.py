"""Published releases and their files.

Rule: this package does not see confidential counts.

part_index      A release in parts: a folder with one release file per part, and an index.
part_writer     Releases of tables that are larger than the memory, part by part: statements that keep parts
                independent, and two passes.
rate_inputs     Inputs of a model of rates from a release: exposures, earlier counts, labels with effects.
release         A release: the noisy table, the public statements, and the mechanism.
release_file    The release file: a zip of canonical JSON and CSV that R, Excel and people can read.
release_reader  Reading of release files, with verification of every byte.
sealed          A sealed archive: a zip of one JSON manifest and CSV parts, verified byte by byte.
selection       A part of a release, selected by labels, whose public sums stay whole.
signatures      Ed25519 signatures of files.
"""

from ppdinf.releases.part_index import ReleaseParts, read_parts
from ppdinf.releases.part_writer import release_parts
from ppdinf.releases.release import Release
from ppdinf.releases.release_reader import read_release

__all__ = ["Release", "ReleaseParts", "read_parts", "read_release", "release_parts"]
