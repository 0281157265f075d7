"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

CALM = 3
"""So many seconds in a row must be quiet."""


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


def quiet(directory: Path, patience: int = 300) -> None:
    """Returns when neither the processors nor the disk of `directory` have much to do: what was deleted or built before is often
    still being discarded or written back, and whoever measures then measures that too. After `patience`
    seconds it is measured all the same."""
    os.sync()
    calm, deadline = 0, time.monotonic() + patience
    while calm < CALM:
        processors, disk = _busy_seconds(), _disk_seconds(directory)
        time.sleep(1)
        processors, disk = _busy_seconds() - processors, _disk_seconds(directory) - disk
        calm = calm + 1 if processors < 0.2 and disk < 0.1 else 0
        if time.monotonic() > deadline:
            print(f"the machine does not come to rest ({processors:.1f} cores, the disk {disk:.0%} of the time); measuring all the same",
                  file=sys.stderr, flush=True)
            return


def _disk_seconds(directory: Path) -> float:
    """How long the disk has been at work since the start; 0 where the kernel does not tell, as of an overlay."""
    device = os.stat(directory).st_dev
    try:
        return int(Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()[9]) / 1000
    except OSError:
        return 0.0


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _our_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
