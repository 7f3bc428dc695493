"""A page in headless Chromium, driven by its DevTools protocol over a pipe: no package is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
TIMEOUT_S = 30


def chromium():
    """The browser's program: `CHROMIUM`, or the first that is installed; None without one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """An empty page of this size. What the console says and what is requested is kept."""

    def __init__(self, profile, width=1280, height=900, scheme="light"):
        self.errors, self.requests = [], []
        self._answers, self._buffer, self._last = {}, b"", 0
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self._in, self._out = ours_in, ours_out
        # The browser reads from descriptor 3 and writes to 4.
        def connect():
            reading, writing = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen([chromium(), *options, "about:blank"], preexec_fn=connect, close_fds=False,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def send(self, method, **parameters):
        """A command, and what it answers."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + TIMEOUT_S
        while self._last not in self._answers:
            self._read(end)
        answer = self._answers.pop(self._last)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _read(self, end):
        ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
        assert ready, f"the browser has not answered for {TIMEOUT_S} s"
        part = os.read(self._in, 1 << 20)
        assert part, "the browser has ended"
        *messages, self._buffer = (self._buffer + part).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._note(message["method"], message["params"])

    def _note(self, method, parameters):
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])

    def open(self, place):
        """A file's path, or a URL."""
        self.send("Page.navigate", url=place if isinstance(place, str) else place.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def evaluate(self, script):
        """A script's value."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition):
        """Waits for a script's value to be true."""
        end = time.monotonic() + TIMEOUT_S
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.05)

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start, end):
        """From one place to the other, with the left button down."""
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, button="left", clickCount=1, buttons=1)
        for step in range(1, 6):
            x, y = (a + (b - a) * step / 5 for a, b in zip(start, end))
            self.mouse("mouseMoved", x, y, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def touch(self, start, end):
        """A finger from one place to the other."""
        point = lambda place: [{"x": place[0], "y": place[1]}]
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=point(start))
        for step in range(1, 6):
            x, y = (a + (b - a) * step / 5 for a, b in zip(start, end))
            self.send("Input.dispatchTouchEvent", type="touchMove", touchPoints=point((x, y)))
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key, *, shift=False):
        """A key: `ArrowLeft`, ` `, `?`."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **(text if kind == "keyDown" else {}))

    def screenshot(self, path, *, whole=False):
        """The visible part, or the whole page, as a PNG file."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
