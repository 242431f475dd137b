"""An nbconvert preprocessor that moves the record into `metadata.jp`.

    jupyter nbconvert --to notebook --inplace --execute \
        --Exporter.preprocessors=jp_nb.headless.preprocessor.JpPreprocessor talk.ipynb

It runs after the notebook was executed. An HTML export embeds the state of widgets, so without
it the page would hold the record.
"""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import Preprocessor

from jp_nb.headless.runner import NOT_WHOLE
from jp_nb.record.merge import lift_carrier, unreadable_carrier


class JpPreprocessor(Preprocessor):
    """Lifts the headless carrier; cells stay as they are."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Lift the carrier of `nb`, in place."""
        lift_carrier(nb.metadata)
        if unreadable_carrier(nb.metadata):
            self.log.error("jp_nb: %s", NOT_WHOLE)
        return nb, resources
