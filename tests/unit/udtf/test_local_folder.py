"""Folders of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
from udtf.local_folder import scratch_folder
path = scratch_folder(sys.argv[1])
assert scratch_folder(sys.argv[1]) == path
open(os.path.join(path, "a"), "w").close()
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
assert os.listdir(path) == ["a"]
print(path)
"""


def test_a_scratch_folder_goes_with_the_process_that_made_it_and_no_sooner(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert Path(path).parent == tmp_path
    assert list(tmp_path.iterdir()) == []
