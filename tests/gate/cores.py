"""The cores that this machine gives to the gate."""

import math
import os
import pathlib


def quota():
    """The cores that a container may use, where it has a quota."""
    try:
        granted, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except OSError:
        return math.inf
    return math.inf if granted == "max" else math.ceil(int(granted) / int(period))


# More than eight would be more networks and databases than a machine has memory for.
CORES = int(max(2, min(len(os.sched_getaffinity(0)), quota(), 8)))
