from .fixed_length_hmc import FixedLengthHMC as FixedLengthHMC
from .lattice_gibbs import LatticeGibbs as LatticeGibbs
from .posterior_importance import importance as importance
from .posterior_rejection import rejection as rejection
