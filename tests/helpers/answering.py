"""Somebody who answers a model's request through files."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path


def answers(folder: Path, text: str) -> threading.Thread:
    """Answer the first request in a folder with a program."""

    def work() -> None:
        deadline = time.monotonic() + 60
        while not (folder / "0001.request.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        (folder / "0001.answer.json").write_text(json.dumps({"answer": {"pe.csl": text}}), encoding="utf-8")

    thread = threading.Thread(target=work)
    thread.start()
    return thread
