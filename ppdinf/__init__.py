"""Privacy noise that keeps public totals exact, and inference that accounts for both.

The public names are listed in ``__init__.pyi`` and imported on first use (SPEC 1), so that ``import ppdinf`` is fast
and reading a release does not import PyMC.

counts  Noise for a histogram of counts, one method per file.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
