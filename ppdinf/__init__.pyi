from . import datasets as datasets
from . import errors as errors
from . import invariants as invariants
from . import mechanisms as mechanisms
from . import plots as plots
from . import privacy as privacy
from . import samplers as samplers
from .diagnostics import diagnose as diagnose
from .mechanisms import Conditioned as Conditioned
from .mechanisms import CorrelatedGaussian as CorrelatedGaussian
from .mechanisms import GeneralizedGaussian as GeneralizedGaussian
from .mechanisms import GeneralizedLaplace as GeneralizedLaplace
from .mechanisms import KNorm as KNorm
from .mechanisms import KNormGradient as KNormGradient
from .mechanisms import PostProcessed as PostProcessed
from .mechanisms import SubspaceGaussian as SubspaceGaussian
from .mechanisms import SubspaceLaplace as SubspaceLaplace
from .mechanisms import Suppression as Suppression
from .mechanisms import TopDown as TopDown
from .mechanisms import WassersteinExponential as WassersteinExponential
from .models import PartiallyPrivate as PartiallyPrivate
from .models import compare as compare
from .models import sample_confidential as sample_confidential
from .releases import Release as Release
from .releases import read_release as read_release
from .tables import as_table as as_table

__version__: str
