"""How the pages are built: `sphinx-build -W -n -c docs . OUT`, from the root of the checkout.

The source folder is the whole checkout, so that a link such as `../notebooks/02-tools.ipynb` works
on a code host and here. Nothing is fetched: no inventories of other projects.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jp_nb

sys.path.insert(0, str(Path(__file__).parent))  # for `generated`, which is beside this

project = "jp_nb"
version = release = jp_nb.__version__
root_doc = "docs/index"
include_patterns = ["docs/**.md", "notebooks/*.ipynb", "*.md"]
extensions = ["generated", "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

nb_execution_mode = "off"  # the stored outputs: the tests compare them with a run
nb_merge_streams = True
myst_heading_anchors = 4

default_role = "literal"  # docstrings quote with single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_use_ivar = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other projects: see "Nothing is fetched"

html_theme = "furo"
html_title = f"jp_nb {release}"
