"""Configuration of Sphinx. Run `sphinx-build -W -n -c docs . OUT` in the root of the checkout.

The source folder is the whole checkout, so that links such as `../notebooks/02-tools.ipynb` work
on a code host and in the pages. The build needs no network: it uses no inventories of other
projects.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jp_nb

sys.path.insert(0, str(Path(__file__).parent))  # for `generated.py`

project = "jp_nb"
version = release = jp_nb.__version__
root_doc = "docs/index"
include_patterns = ["docs/**.md", "notebooks/*.ipynb", "*.md"]
extensions = ["generated", "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

nb_execution_mode = "off"  # show the stored outputs, which the tests compare with a run
nb_merge_streams = True
myst_heading_anchors = 4

default_role = "literal"  # docstrings use single backticks for code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_use_ivar = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other projects have no inventory

html_theme = "furo"
html_title = f"jp_nb {release}"
