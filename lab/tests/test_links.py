"""Links that go in mid-run: noticed, told, and frames for them dropped as `port_down`."""

import threading
import time

import pytest
from pfc import Stream

from weirlab import netns
from weirlab.switch import Switch, check_balance
from weirlab.wire import Wire

pytestmark = pytest.mark.root

MACS = {"p0": "02:00:00:00:00:01", "p1": "02:00:00:00:00:02"}
WITHIN_S = 20


def test_a_peers_namespace_is_deleted(namespace, cleanup, tmp_path):
    here = namespace("links")
    far = netns.Namespace(here.name + "-far")
    cleanup.callback(lambda: far.name and far.delete())
    here.be_silent()
    far.be_silent()
    netns.veth((here, "sw-p0"), (here, "host-p0"))
    netns.veth((here, "sw-p1"), (far, "host-p1"))
    wire = cleanup.enter_context(Wire(here, "host-p0"))
    ports = "".join(f'[[ports]]\nname = "{name}"\naf_packet = "sw-{name}"\nrate = "1Gbps"\n' for name in MACS)
    macs = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "{name}"\n' for name, mac in MACS.items())
    file = tmp_path / "switch.toml"
    file.write_text(f'[lcores]\nlayout = "single"\n[buffer]\nsize = "1MB"\n{ports}{macs}')
    gone, down, again, up = (threading.Event() for _ in range(4))

    def note(line):
        uses = "there is an interface sw-p1 again: the port uses it"
        for word, event in (("is gone", gone), ("link down", down), (uses, again)):
            if word in line:
                event.set()
        if again.is_set() and "link up" in line:
            up.set()

    stream = Stream(MACS["p0"], MACS["p1"], dscp=10)
    with Switch(file, namespace=here, arguments=["--quiet"], on_line=note) as switch:
        here.ip("link", "set", "sw-p0", "mtu", "1400")
        # The kernel takes the interfaces of a namespace down in the background.
        far.delete()
        far.name = None
        assert gone.wait(WITHIN_S) and down.wait(WITHIN_S)
        for _ in range(50):
            wire.send(stream.next())
        time.sleep(0.3)
        netns.veth((here, "sw-p1"), (here, "host-p1"))
        assert again.wait(WITHIN_S) and up.wait(WITHIN_S)
        with Wire(here, "host-p1") as back:
            for wire_in, wire_out, sent in ((wire, back, stream), (back, wire, Stream(MACS["p1"], MACS["p0"], dscp=10))):
                frame = sent.next()
                wire_in.send(frame)
                assert wire_out.receive_until(lambda got, frame=frame: got == frame, WITHIN_S)
        finished = switch.stop()
    check_balance(finished.switch)
    assert finished.switch["drops"] == {"port_down": 50}
    assert "the MTU of sw-p0 is 1400 now" in finished.stderr
    assert finished.port("p1")["link_up"]
