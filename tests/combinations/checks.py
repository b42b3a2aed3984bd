"""Run a composition and compare it with the enumerator."""

from combinations.check_denoised import check_denoised
from combinations.check_mechanism import check_mechanism
from combinations.check_posterior import check_posterior
from combinations.outcomes import SECONDS, outcome

CHECKS = {"posterior": check_posterior, "denoise": check_denoised, "mechanism": check_mechanism}


def run(composition, seconds=SECONDS):
    """Check a composition; expensive checks run for some compositions only, by number."""
    seed = composition.seed
    options = {}
    if composition.way == "posterior":
        begins = any(f in composition.features for f in ("way: latent multinomial", "dependent: missing values"))
        options = {
            "gradient": seed % 3 == 0,
            "draws": seed % 7 == 0,
            "sampling": (begins and seed % 2 == 0) or seed % 41 == 0,
        }
    elif composition.way == "mechanism":
        options = {"dist": seed % 4 == 0}
    return outcome(composition, CHECKS[composition.way](composition, **options), seconds)
