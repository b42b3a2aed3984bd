from .fixed_length_hmc import FixedLengthHMC as FixedLengthHMC
from .lattice_gibbs import LatticeGibbs as LatticeGibbs
from .lattice_gibbs import dense_steps as dense_steps
from .posterior_importance import importance as importance
from .posterior_rejection import rejection as rejection
