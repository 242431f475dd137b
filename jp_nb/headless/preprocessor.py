r"""nbconvert preprocessor that moves the record into `metadata.jp`.

    jupyter nbconvert --to notebook --inplace --execute \
        --Exporter.preprocessors=jp_nb.headless.preprocessor.JpPreprocessor talk.ipynb

It runs after the execution. Without it, an HTML export contains the record, because it embeds
the state of widgets.
"""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import Preprocessor

from jp_nb.headless.result_writing import INCOMPLETE_RECORD
from jp_nb.record.documents.carrier import find_unreadable_carriers, lift_carrier


class JpPreprocessor(Preprocessor):
    """Moves the record from the carrier widget into `metadata.jp`."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Change the metadata of `nb` in place."""
        lift_carrier(nb.metadata)
        if find_unreadable_carriers(nb.metadata):
            self.log.error("jp_nb: %s", INCOMPLETE_RECORD)
        return nb, resources
