"""Run a job of the workflow again and again, kill -9 it at random moments, then let it finish.

    python kill_often.py SEED KILLS LONGEST_SECONDS JOB_ARGUMENTS...

Forks from a process that has imported everything, so that the moments fall into the work and not into imports. Prints
the moments, in seconds after the start, as a JSON list.
"""

import json
import os
import random
import signal
import sys
import time

import torch

from tangentbench.gram import Gram
from tangentbench.kernels import ntk
from tangentbench.suite.steps import jobs
from tangentbench.training import loop

IMPORTED = (torch, Gram, ntk, loop)


def start(arguments: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        jobs(arguments, standalone_mode=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        os._exit(code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def main() -> None:
    seed, kills, longest, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    moments = [random.Random(int(seed) + kill).uniform(0, float(longest)) for kill in range(int(kills))]
    for moment in moments:
        child = start(arguments)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"the job ended by itself (status {status}) before it was killed after {moment:.2f} s")
    _, status = os.waitpid(start(arguments), 0)
    print(json.dumps(moments))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
