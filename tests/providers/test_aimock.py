"""Against npm's `@copilotkit/aimock`, a mock server that others wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen
