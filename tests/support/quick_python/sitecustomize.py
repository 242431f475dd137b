"""Start Python programs of the tests without slow parsers, and end kernels quickly.

Freeing each object takes a sixth of the time of a short run.

`tests/conftest.py` puts this folder into the search path of all programs that tests start.
"""

import atexit
import os
import sys

import late_parsers  # type: ignore[import-not-found]  # noqa: F401  # in this folder

if "ipykernel_launcher" in sys.orig_argv:
    atexit.register(os._exit, 0)  # registered first, so it is called after all other functions
