"""Posterior samplers: rejection, importance sampling, and the Gibbs sampler of confidential tables.

What analysts call is named in ``__init__.pyi`` and loads when first used, with PyMC.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
