"""Files of scenarios whose hosts are at one switch, for tests of real hosts, and their runs."""

import subprocess

from weirlab.switch import weir_binary

# A guest's boot under emulation, and more.
PATIENCE_S = 300


def at_one_switch(name, end, buffer="2MB", classes="", mean_frame=None, reaction=None):
    """A scenario's file up to its switch `S1`, in real time, with ports of 100 Mb/s; hosts and flows are to follow.

    `reaction` is how late the switch may be without loss: headroom for it is taken of the buffer at each port.
    """
    pfc = f'\n[switch.pfc]\nreaction = "{reaction}"\n' if reaction else ""
    frames = f"\nmean_frame = {mean_frame}" if mean_frame else ""
    return f"""
[scenario]
name = "{name}"
end = "{end}"
sample_every = "20ms"
time_dilation = 1

[switch]
idle = "sleep"

[switch.lcores]
layout = "single"

[switch.buffer]
size = "{buffer}"{frames}
{pfc}
[switch.classes]
preset = "roce"
{classes}
[switch.port]
rate = "100Mbps"
delay = "1us"

[[switches]]
name = "S1"
"""


def host(name, backend=None, **keys):
    """A host of that switch; `backend` is as in the file, and no host is real without."""
    chosen = f"backend = {backend}\n" if backend else ""
    more = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
    return f'\n[[hosts]]\nname = "{name}"\nport = "S1.{name.lower()}"\n{chosen}{more}'


def flow(name, sender, receiver, traffic_class=3, **keys):
    """A flow; text among the values is put in quotation marks."""
    more = "".join(f"{key} = {value}\n" if isinstance(value, int) else f'{key} = "{value}"\n' for key, value in keys.items())
    return f'\n[[flows]]\nname = "{name}"\nfrom = "{sender}"\nto = "{receiver}"\nclass = {traffic_class}\n{more}'


def run_with_hosts(folder, name, text, patience=PATIENCE_S):
    """Runs the scenario of this name in a folder of its own, for so many seconds at most; the ended process, and the run's directory."""
    file, runs = folder / f"{name}.toml", folder / "runs"
    file.write_text(text)
    command = [weir_binary(), "testbed", "run", file, "--backend", "hosts", "-o", runs]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience), runs / name
