"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from pathlib import Path


def describe(directory: Path) -> dict[str, str]:
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    filesystem = subprocess.run(["stat", "-f", "-c", "%T", str(directory)], capture_output=True, text=True).stdout.strip()
    return {"cpu": model, "cores": str(os.cpu_count()), "memory": f"{memory / 2**20:.0f} GiB", "kernel": platform.release(),
            "filesystem": filesystem}


class Company:
    """How much of the machine others used while the `with` block ran, in cores."""

    def __enter__(self) -> Company:
        self._started = time.monotonic()
        self._busy, self._ours = _busy_seconds(), _our_seconds()
        self.cores = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        others = (_busy_seconds() - self._busy) - (_our_seconds() - self._ours)
        self.cores = max(0.0, others) / (time.monotonic() - self._started)


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _our_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
