"""Every algorithm that draws: exact ones, chains, and posterior samplers; one file each.

What analysts call is named in ``__init__.pyi`` and loads when first used, so that kernels can be imported
without PyMC.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
