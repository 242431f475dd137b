"""End kernels without freeing each object, which takes a sixth of the time of a short run.

`tests/conftest.py` puts this folder into the search path of the kernels.
"""

import atexit
import os
import sys

if "ipykernel_launcher" in sys.orig_argv:
    atexit.register(os._exit, 0)  # registered first, so it is called after all other functions
