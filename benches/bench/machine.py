"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def describe(directory: Path) -> dict[str, str]:
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    filesystem = subprocess.run(["stat", "-f", "-c", "%T", str(directory)], capture_output=True, text=True).stdout.strip()
    return {"cpu": model, "cores": str(os.cpu_count()), "memory": f"{memory / 2**20:.0f} GiB", "kernel": platform.release(),
            "filesystem": filesystem}


def load() -> float:
    """Runnable processes, the last minute's mean: above one core's worth, times are rough."""
    return os.getloadavg()[0]
