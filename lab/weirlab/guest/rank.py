"""A guest's queue pairs of ranks: each message is RDMA WRITEs with immediate data on a reliable connection.

The command starts it in each guest with ranks, as `rank.py ADDRESS TIMEOUT`, and carries lines between the guests. An end is a queue pair;
those with even numbers send.

    reads                                   writes
    end END ADDRESS TRAFFIC_CLASS           end END QPN RKEY VADDR MTU
    peer END QPN RKEY VADDR MTU             up END
    send END MESSAGE BYTES                  acked END MESSAGE
                                            arrived END MESSAGE BYTES, of each WRITE
                                            failed END STATUS
"""

import collections
import os
import select
import socket
import sys

from pyverbs import enums
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEVICE, PORT, GIDS = "rxe0", 1, 16
# Bytes of a WRITE at most: a longer message is several.
WRITE_MAX = 1 << 20
# WRITEs of an end on their way, and those that it takes before it looks. Further ones are asked for again (RNR NAK).
SENDS, RECEIVES = 32, 128
COMPLETIONS = 32_000
# Retries after timeouts without progress, of which Soft-RoCE takes 7 as without end; and after RNR NAKs, without end.
RETRIES, RNR_RETRIES = 6, 7
# 0.64 ms until a WRITE that was refused by an RNR NAK (IBA, table 45).
RNR_TIMER = 12
STATUSES = {value: name for name, value in vars(enums).items() if name.startswith("IBV_WC_") and name.endswith("_ERR")}


class Ranks:
    """The device with one completion queue for all ends, and the memory that all WRITEs are from and to."""

    def __init__(self, address, timeout):
        self.timeout = timeout
        self.context = Context(name=DEVICE)
        self.mtu = self.context.query_port(PORT).active_mtu
        self.gid = next(
            entry.gid_index
            for entry in self.context.query_gid_table(GIDS)
            if entry.gid_type == enums.IBV_GID_TYPE_ROCE_V2 and entry.gid_str() == mapped(address)
        )
        domain = self.domain = PD(self.context)
        others = event_files()
        self.channel = CompChannel(self.context)
        (self.events,) = event_files() - others
        self.completions = CQ(self.context, COMPLETIONS, None, self.channel, 0)
        access = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
        self.source, self.target = MR(domain, WRITE_MAX, access), MR(domain, WRITE_MAX, access)
        self.source.write(bytes(n % 251 for n in range(WRITE_MAX)), WRITE_MAX)
        self.ends, self.by_number = {}, {}

    def handle(self, words):
        """Does what a line asks for."""
        kind, number, *rest = words
        number = int(number)
        if kind == "end":
            end = self.ends[number] = End(self, number, *rest)
            self.by_number[end.pair.qp_num] = end
            say("end", number, end.pair.qp_num, self.target.rkey, self.target.buf, self.mtu)
        elif kind == "peer":
            self.ends[number].connect(*map(int, rest))
            say("up", number)
        elif kind == "send":
            self.ends[number].send(*map(int, rest))

    def complete(self):
        """Hands each completion to its end. Asks to be woken before it looks, so that none is missed."""
        self.channel.get_cq_event(self.completions)
        self.completions.ack_events(1)
        self.completions.req_notify()
        while completed := self.completions.poll(64)[1]:
            for completion in completed:
                self.by_number[completion.qp_num].complete(completion)


class End:
    """A queue pair."""

    def __init__(self, ranks, number, address, traffic_class):
        self.ranks, self.number, self.address, self.traffic_class = ranks, number, address, int(traffic_class)
        self.has_failed = False
        # WRITEs that wait for a place in the send queue, and messages of those on their way, with whether a message ends with it.
        self.waiting, self.sent = collections.deque(), collections.deque()
        is_sender = number % 2 == 0
        capacity = QPCap(SENDS if is_sender else 1, 1 if is_sender else RECEIVES, 1, 1)
        init = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=ranks.completions, rcq=ranks.completions, cap=capacity, sq_sig_all=1)
        self.pair = QP(ranks.domain, init)
        # One of each, filled in anew for each request.
        self.gather = SGE(ranks.source.buf, 0, ranks.source.lkey)
        self.write = SendWR(opcode=enums.IBV_WR_RDMA_WRITE_WITH_IMM, num_sge=1, sg=[self.gather])
        self.write.sg_list = self.gather
        self.receive = RecvWR(num_sge=1, sg=[SGE(ranks.target.buf, 0, ranks.target.lkey)])

    def connect(self, pair, rkey, vaddr, mtu):
        """Connects to the peer's queue pair. Each end's packet numbers begin with its queue pair's number."""
        ranks, attr = self.ranks, QPAttr(port_num=PORT)
        attr.qp_access_flags = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
        attr.path_mtu = min(mtu, ranks.mtu)
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = pair, pair, self.pair.qp_num
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = ranks.timeout, RETRIES, RNR_RETRIES, RNR_TIMER
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        route = GlobalRoute(dgid=GID(mapped(self.address)), sgid_index=ranks.gid, traffic_class=self.traffic_class)
        route.hop_limit = 64
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        self.pair.to_rts(attr)
        self.write.set_wr_rdma(rkey, vaddr)
        if self.number % 2:
            for _ in range(RECEIVES):
                self.pair.post_recv(self.receive)

    def send(self, message, size):
        while size > WRITE_MAX:
            self.waiting.append((message, WRITE_MAX, False))
            size -= WRITE_MAX
        self.waiting.append((message, size, True))
        self.post()

    def post(self):
        while self.waiting and len(self.sent) < SENDS:
            message, size, is_last = self.waiting.popleft()
            self.gather.length, self.write.imm_data = size, socket.htonl(message)
            self.pair.post_send(self.write)
            self.sent.append((message, is_last))

    def complete(self, completion):
        if completion.status != enums.IBV_WC_SUCCESS:
            # All others of the queue pair are flushed after it.
            if not self.has_failed:
                say("failed", self.number, STATUSES.get(completion.status, completion.status))
            self.has_failed = True
        elif self.number % 2:
            say("arrived", self.number, socket.ntohl(completion.imm_data), completion.byte_len)
            self.pair.post_recv(self.receive)
        else:
            message, is_last = self.sent.popleft()
            if is_last:
                say("acked", self.number, message)
            self.post()


def event_files():
    """Open files of events. pyverbs does not say which is a channel's."""
    return {int(file) for file in os.listdir("/proc/self/fd") if "infinibandevent" in os.path.realpath(f"/proc/self/fd/{file}")}


def mapped(address):
    """The GID of an IPv4 address, as pyverbs writes it."""
    a, b, c, d = map(int, address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def say(*words):
    line = " ".join(map(str, words)).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def main():
    ranks = Ranks(sys.argv[1], int(sys.argv[2]))
    ranks.completions.req_notify()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(ranks.events, select.POLLIN)
    say("ready")
    rest = b""
    while True:
        for file, _ in poll.poll():
            if file == ranks.events:
                ranks.complete()
                continue
            read = os.read(0, 1 << 16)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                ranks.handle(line.decode().split())


if __name__ == "__main__":
    main()
