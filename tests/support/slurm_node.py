"""A real Slurm on this machine alone: munged, slurmctld and slurmd on the loopback, without systemd or accounting."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun", "scancel", "sinfo")
PATIENCE_SECONDS = 20
MEMORY_SHARE = 0.75
"""Of the machine's memory, what jobs may ask for."""

CONFIGURATION = """\
ClusterName=tangentbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
PropagateResourceLimits=NONE
# finished jobs stay visible to squeue, which stands in for the accounting that a real cluster has
MinJobAge=600
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ReturnToService=2
KillWait=2
SchedulerParameters=sched_min_interval=200000,batch_sched_delay=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:1 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
"""


def why_not() -> str | None:
    """Why no Slurm can be started here, or None."""
    search = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=search) is None]
    return f"{', '.join(missing)} not installed (Debian: slurm-wlm, munge)" if missing else None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class SlurmNode:
    """Use as a context; `environment` is what programs need to find it."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin"
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def run(self, *call: str, check: bool = True) -> str:
        done = subprocess.run(
            call, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False, timeout=60
        )
        assert not check or done.returncode == 0, f"{call}: {done.stderr}"
        return done.stdout

    def __enter__(self) -> SlurmNode:
        for name in ("controller", "spool", "bin"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        self.configure()
        try:
            key = self.folder / "munge.key"
            key.write_bytes(secrets.token_bytes(1024))
            key.chmod(0o600)
            files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
            files |= {"log-file": "munged.log", "seed-file": "munge.seed"}
            self.run("munged", "--force", *(f"--{option}={self.folder / name}" for option, name in files.items()))
            self.run("slurmctld", "-c")
            self.run("slurmd", "-c")
            self.wait_until_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def configure(self) -> None:
        megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        text = CONFIGURATION.format(
            folder=self.folder,
            user=getpass.getuser(),
            host=socket.gethostname().split(".")[0],
            controller_port=free_port(),
            node_port=free_port(),
            cpus=os.cpu_count(),
            memory=int(megabytes * MEMORY_SHARE),
        )
        (self.folder / "slurm.conf").write_text(text)
        # schedulable, nothing more
        (self.folder / "gres.conf").write_text("Name=gpu Count=1 File=/dev/null\n")
        # Snakemake's job step drops every SLURM_ variable before it calls srun
        srun = shutil.which("srun")
        wrapper = self.folder / "bin" / "srun"
        wrapper.write_text(f'#!/bin/sh\nexec env SLURM_CONF={self.folder}/slurm.conf {srun} "$@"\n')
        wrapper.chmod(0o755)

    def wait_until_idle(self) -> None:
        begin = time.monotonic()
        while self.run("sinfo", "--noheader", "--format=%T", check=False).strip() != "idle":
            if time.monotonic() - begin > PATIENCE_SECONDS:
                logs = "\n".join(file.read_text(errors="replace")[-2000:] for file in self.folder.glob("*.log"))
                raise RuntimeError(f"the node does not become idle:\n{logs}")
            time.sleep(0.1)

    def jobs(self, state: str) -> list[str]:
        """Numbers of the jobs in a state, RUNNING say."""
        return self.run("squeue", "--noheader", f"--states={state}", "--format=%i").split()

    def field_of(self, job: str, name: str) -> str:
        """A field of a job as `scontrol show job` prints it."""
        words = self.run("scontrol", "show", "job", job).split()
        return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))

    def __exit__(self, *_: Any) -> None:
        """End all jobs, then the daemons whose numbers we hold."""
        if (self.folder / "slurmctld.pid").exists():
            self.run("scancel", f"--user={getpass.getuser()}", check=False)
        for name in ("slurmd", "slurmctld", "munged"):
            stop(self.folder / f"{name}.pid")


def stop(pid_file: Path) -> None:
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return
    begin = time.monotonic()
    while Path(f"/proc/{pid}").exists() and time.monotonic() - begin < PATIENCE_SECONDS:
        time.sleep(0.1)
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, signal.SIGKILL)
