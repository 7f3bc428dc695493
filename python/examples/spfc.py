"""SPFC, selective PFC (IV-B), as a class: its runs have the results of ``policy = "spfc"``."""

import weir


class Spfc(weir.BufferPolicy):
    """SPFC: DT for normal ports; a victim may fill the shared segment."""

    gauges = (weir.Gauge("victim", state=("victim", "normal"), of_port=True),)

    def __init__(
        self, context: weir.BuildContext, *, alpha: weir.Alpha = weir.Alpha("1"), k_spfc: int = 5, tc: weir.Span = weir.Span("80us")
    ) -> None:
        self.alpha, self.tc = alpha, tc
        # A port is a victim if C·TC / K_spfc departs in a window of TC.
        self.victim_from = [max(1, -(-rate.bytes_in(tc) // k_spfc)) for rate in context.rates]
        # Window, and departures in the window before and in this one.
        self.departures = [(0, 0, 0)] * len(context.rates)

    def departed(self, port: int, now: int) -> tuple[int, int, int]:
        window, last, current = self.departures[port]
        ahead = now // self.tc - window
        return (window + ahead, *((last, current) if ahead == 0 else (current, 0) if ahead == 1 else (0, 0)))

    def on_release(self, ingress: weir.QueueId, bytes: int, queue: weir.QueueView) -> None:
        window, last, current = self.departed(ingress.port, queue.now)
        self.departures[ingress.port] = (window, last, current + bytes)

    def is_victim(self, queue: weir.QueueView) -> bool:
        port = queue.queue.port
        return not queue.off and not queue.port_off and max(self.departed(port, queue.now)[1:]) >= self.victim_from[port]

    def threshold(self, queue: weir.QueueView) -> int:
        pool = queue.shared_pool
        return pool.capacity if self.is_victim(queue) else self.alpha.scale(pool.free)

    def has_non_increasing_thresholds(self) -> bool:
        return True

    def gauge_values(self, queue: weir.QueueView) -> tuple[int]:
        return (int(self.is_victim(queue)),)
