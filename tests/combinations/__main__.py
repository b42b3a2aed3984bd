"""Print compositions and check them: ``PYTHONPATH=.:tests python -m combinations SEED [SEED ...]``, or ``pairs``."""

import itertools
import sys
from collections import Counter

from combinations.checks import run
from combinations.generator import compose


def pairs(number):
    """Count compositions that have two features together."""
    found = Counter()
    for seed in range(number):
        kinds = {feature.split(":")[0] for feature in compose(seed).features}
        found.update(itertools.combinations_with_replacement(sorted(kinds), 2))
    names = sorted({name for pair in found for name in pair})
    print("|  | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for one in names:
        print(f"| {one} | " + " | ".join(str(found[tuple(sorted((one, two)))]) for two in names) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["pairs"]:
        pairs(int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
    else:
        import pytensor

        from conftest import interpreter

        with pytensor.config.change_flags(mode=interpreter()):
            for number in map(int, sys.argv[1:]):
                composition = compose(number)
                print(composition.show(), run(composition), sep="\n")
