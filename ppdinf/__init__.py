"""Privacy noise that keeps public totals exact, and inference that accounts for both.

The public names are listed in ``__init__.pyi`` and load when they are first used (SPEC 1), so that
``import ppdinf`` is quick and whoever only reads a release does not wait for PyMC.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
