"""TIMELY (SIGCOMM 2015) as a class: its runs have the results of ``congestion_control = "timely"``."""

import weir


class Timely(weir.CongestionController):
    """TIMELY: a rate that follows the round-trip time's gradient."""

    feedback = weir.RequiredFeedback(telemetry="time", acks_every_packet=True)
    gauges = (weir.Gauge("rtt_us"), weir.Gauge("gradient"))

    def __init__(
        self,
        line: weir.BitRate,
        *,
        ewma: float = 0.875,
        beta: float = 0.8,
        t_low: weir.Span = weir.Span("50us"),
        t_high: weir.Span = weir.Span("500us"),
        min_rtt: weir.Span = weir.Span("20us"),
        hai: int = 5,
        segment: weir.Bytes = weir.Bytes("16KB"),
    ) -> None:
        self.line, self.step, self.rate_min = int(line), line // 1000, line // 1000
        self.ewma, self.beta, self.hai, self.segment = ewma, beta, hai, segment
        self.t_low, self.t_high, self.min_rtt = t_low, t_high, min_rtt
        self.bps = self.line
        self.rtt: int | None = None
        self.difference = 0.0
        self.calm = 0
        self.completes_at = int(segment)

    def rate(self) -> int:
        return self.bps

    def on_ack(self, now: int, ack: weir.AckSignal) -> None:
        if ack.acked < self.completes_at:
            return
        self.completes_at = (ack.acked // self.segment + 1) * self.segment
        before, self.rtt = self.rtt, ack.rtt
        if before is not None:
            self.update(before, ack.rtt)

    def update(self, before: int, rtt: int) -> None:
        self.difference = (1.0 - self.ewma) * self.difference + self.ewma * float(rtt - before)
        gradient = self.difference / self.min_rtt
        self.calm = self.calm + 1 if gradient <= 0.0 else 0
        if rtt < self.t_low:
            self.bps = min(self.bps + self.step, self.line)
        elif rtt > self.t_high:
            self.cut(1.0 - self.t_high / rtt)
        elif gradient <= 0.0:
            self.bps = min(self.bps + self.step * (self.hai if self.calm >= self.hai else 1), self.line)
        else:
            self.cut(gradient)

    def cut(self, part: float) -> None:
        self.calm = 0
        rate = self.bps * (1.0 - self.beta * part)
        self.bps = min(max(int(max(rate + 0.5, 0.0)), self.rate_min), self.line)

    def gauge_values(self) -> tuple[float, float]:
        return (float("nan") if self.rtt is None else self.rtt / 1e6, self.difference / self.min_rtt)
