"""`weir run` inside the guest."""

import json
import re
import time

from ..switch import Finished

START_S = 90
STOP_S = 90


class GuestSwitch:
    """Runs a configuration in the guest, for the time of a `with` block."""

    def __init__(self, machine, text, eal=(), arguments=()):
        self._machine, self._eal, self._arguments = machine, list(eal), list(arguments)
        machine.write("/root/switch.toml", text)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._machine.run("kill -9 $(cat /tmp/pid) 2>/dev/null; while pidof weir; do sleep 0.1; done")

    def start(self):
        """Starts it, and waits until it forwards; what it says instead is the failure."""
        command = " ".join(["weir", "run", "--quiet", "--json", "/tmp/json", *self._arguments, "switch.toml"])
        eal = f"-- {' '.join(self._eal)}" if self._eal else ""
        self._machine.must_run(
            "rm -f /tmp/json /tmp/code /tmp/pid; > /tmp/out; > /tmp/log; cd /root;"
            f" ( {command} {eal} >> /tmp/out 2>> /tmp/log & echo $! > /tmp/pid; wait $!; echo $? > /tmp/code ) &"
        )
        deadline = time.monotonic() + START_S
        while "forwarding" not in (log := self.log()):
            code, text = self._machine.run("cat /tmp/code")
            assert code != 0, f"weir run ended with exit code {text.strip()}\n{self.log()}"
            assert time.monotonic() < deadline, f"weir run does not forward\n{log}"
            time.sleep(0.2)

    def log(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self._machine.must_run("cat /tmp/log"))

    def kill(self):
        """Ends it as a crash would."""
        self._machine.must_run("kill -9 $(cat /tmp/pid); while pidof weir; do sleep 0.1; done; true")

    def stop(self):
        """Asks it to end, and returns what it left."""
        self._machine.must_run("kill $(cat /tmp/pid)")
        return self.wait()

    def wait(self, within=STOP_S):
        code = self._machine.must_run(f"n=0; until [ -s /tmp/code ] || [ $n = {within * 5} ]; do sleep 0.2; n=$((n+1)); done; cat /tmp/code")
        summary = self._machine.run("cat /tmp/json")[1]
        return Finished(int(code), self._machine.must_run("cat /tmp/out"), self.log(), json.loads(summary) if summary else None)
