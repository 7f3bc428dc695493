"""An emulated guest: its process, its console, its shell."""

import contextlib
import pathlib
import re
import socket
import subprocess
import tempfile
import time

BOOT_S = 300
# The machine under emulation is slow, and others may want the CPUs besides.
COMMAND_S = 120
# How often it is seen meanwhile whether the guest's kernel still has its timers.
LOOK_S = 5
# What Linux 6.1 says of a CPU whose timer was to wake it and never will, since QEMU lost an interrupt of it.
TIMER_LOST = "Possible timer handling issue"
# For translated code; QEMU would take a gigabyte.
TRANSLATED_MB = 256
# QEMU runs `rep movsb` and `rep stosb` byte by byte, by which Linux clears pages and copies where a CPU says that it does so fast.
CPU = "max,-erms,-fsrm"


class EmulatorEnded(Exception):
    """The emulator is gone, and what it and the guest's kernel said last."""


class Emulator:
    """A guest of `parts`, whose file system is to be written to `image`; `_boot` starts it."""

    def __init__(self, parts):
        self.parts = parts
        self._directory = tempfile.TemporaryDirectory(prefix="weir-guest-")
        self.folder = pathlib.Path(self._directory.name)
        self.image = self.folder / "image"
        self._process = None

    def _boot(self, machine, memory_mb, words, devices):
        """Starts the emulator with these devices, and waits for the guest's shell. `words` are the kernel's besides its usual."""
        command, environment = self.parts.qemu()
        # One thread for both CPUs: with a thread each, QEMU 7.2 loses the end of an interrupt now and then, and that CPU sleeps for good.
        command += ["-machine", machine, "-accel", f"tcg,thread=single,tb-size={TRANSLATED_MB}", "-cpu", CPU, "-smp", "2", "-m", str(memory_mb)]
        command += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self.folder / 'console'}"]
        command += ["-kernel", str(self.parts.kernel), "-initrd", str(self.image)]
        # Interrupts of a timer that a busy machine delivers late fail the kernel's test of it, and it panics.
        command += ["-append", f"console=ttyS0 panic=-1 quiet mitigations=off no_timer_check cryptomgr.notests {words}", *devices]
        command += ["-device", "virtio-serial-pci,addr=0x03,vectors=0"]
        command += ["-chardev", f"socket,id=agent,path={self.folder / 'agent'},server=on,wait=off"]
        command += ["-device", "virtserialport,chardev=agent,name=agent"]
        with open(self.folder / "qemu.log", "w") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._shell = _Shell(self._connect("agent"), self._kill_if_it_hangs)
        self._or_ended(self._shell.wait_until_ready, BOOT_S)

    def _connect(self, name):
        deadline = time.monotonic() + BOOT_S
        while True:
            if not self.alive():
                raise EmulatorEnded(self.last_words())
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(self.folder / name))
                return connection
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends it as a crash would."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def alive(self):
        return self._process.poll() is None

    def _kill_if_it_hangs(self):
        """Ends a guest that lost a timer: each command would wait in it for as long as it may."""
        if TIMER_LOST in self.console():
            self._process.kill()

    def _or_ended(self, action, *arguments):
        """Does something, and where the emulator has ended (as it does too when the guest's kernel gives up) says all that
        is known of its end."""
        try:
            return action(*arguments)
        except ConnectionError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            raise EmulatorEnded(self.last_words()) from None

    def last_words(self):
        """What a guest that is of no use any more said last."""
        log = (self.folder / "qemu.log").read_text(errors="replace")
        code = self._process.poll()
        end = "closed the guest's port" if code is None else f"ended with {code}"
        return f"the emulator {end}:\n{log[-2000:]}\nthe guest's console:\n{self.console()[-6000:]}"

    def console(self):
        """What the guest has said; nothing where its emulator is not as far as to write it."""
        file = self.folder / "console"
        return file.read_text(errors="replace") if file.exists() else ""

    def run(self, command, within=COMMAND_S):
        """Runs a shell command to its end: (exit code, output)."""
        return self._or_ended(self._shell.run, command, within)

    def must_run(self, command, within=COMMAND_S):
        code, output = self.run(command, within)
        assert code == 0, f"{command}: exit code {code}\n{output}\n{self.console()[-2000:]}"
        return output


class _Shell:
    """Commands to the guest's shell, and what they print. `look` is called now and then while one runs."""

    def __init__(self, connection, look):
        self._socket, self._look, self._buffer, self._number = connection, look, b"", 0

    def wait_until_ready(self, within):
        deadline = time.monotonic() + within
        # Until the guest has opened its end, what is sent goes nowhere. A guest that has little of the machine has longer for each answer.
        patience = 1
        while (left := deadline - time.monotonic()) > 0:
            try:
                if self.run("echo ready", min(patience, left))[1].strip().endswith("ready"):
                    self._drain()
                    return
            except TimeoutError:
                patience *= 1.5
        raise TimeoutError("the guest does not answer")

    def _drain(self):
        self._socket.settimeout(0.5)
        try:
            while self._socket.recv(65536):
                pass
        except TimeoutError:
            self._buffer = b""

    def run(self, command, within):
        self._number += 1
        mark = f"<{self._number} ended "
        self._buffer = b""
        # In two pieces, so that an echo of the command is not taken for its end.
        self._socket.settimeout(within)
        self._socket.sendall(f"( {command}\n) </dev/null; echo '{mark[:3]}''{mark[3:]}'$?'>'\n".encode())
        deadline = time.monotonic() + within
        pattern = re.compile(re.escape(mark).encode() + rb"(\d+)>\r?\n")
        while not (end := pattern.search(self._buffer)):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{command}: no end within {within} s\n{self._buffer.decode(errors='replace')}")
            self._socket.settimeout(min(left, LOOK_S))
            try:
                received = self._socket.recv(65536)
            except TimeoutError:
                self._look()
                continue
            if not received:
                raise ConnectionResetError("the emulator closed the guest's port")
            self._buffer += received
        return int(end[1]), self._buffer[: end.start()].decode(errors="replace").replace("\r", "")
