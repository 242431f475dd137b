"""The built modules of the widgets of forms."""

from __future__ import annotations

import json
from pathlib import Path

import jp_nb

MODULES = Path(jp_nb.__file__).parent / "notebook" / "prompt" / "modules"
WIDGETS = Path(__file__).parents[3] / "js" / "src" / "widgets"


def test_modules_are_built_from_the_present_sources() -> None:
    built: set[str] = set()
    for path in MODULES.glob("*.map"):
        source_map = json.loads(path.read_text(encoding="utf-8"))
        for source, text in zip(source_map["sources"], source_map["sourcesContent"], strict=True):
            name = source.rpartition("/")[2]
            built.add(name)
            present = (WIDGETS / name).read_text(encoding="utf-8")
            assert text == present, f"run `npm run build` in js/: {name}"

    assert built == {path.name for path in WIDGETS.glob("*.ts")}


def test_each_module_is_one_file_that_loads_nothing() -> None:
    for name in ("form", "choices", "secret"):
        code = (MODULES / f"{name}.js").read_text(encoding="utf-8")
        assert "import " not in code
        assert "as default" in code.rpartition("export")[2]
