"""Waiting for what another process does."""

import time


def until(holds, what, within_s=60):
    """Returns as soon as `holds()` is true; fails after so many seconds. `what` is a text, or a function that makes one then."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"not within {within_s} s: {what() if callable(what) else what}"
        time.sleep(0.02)
