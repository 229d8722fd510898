"""The user's own knowledge folder: documents and lessons that agents may read, screened when they are added."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fabrica_bench.errors import home_folder

KNOWLEDGE_VARIABLE: Final = "FABRICA_AGENT_KB_FOLDER"
"""Where an agent's process finds the folder; a user may set it to keep several."""


def knowledge_folder() -> Path:
    """The folder; it need not exist.

    Raises:
        FabricaError: No variable names it, and the user has no home folder.
    """
    chosen = os.environ.get(KNOWLEDGE_VARIABLE)
    if chosen:
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME")
    return (
        (Path(data) if data else home_folder(KNOWLEDGE_VARIABLE) / ".local" / "share") / "fabrica-bench" / "knowledge"
    )
