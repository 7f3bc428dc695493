"""DT, a dynamic threshold, as a class: its runs have the results of ``policy = "dt"``."""

import weir


class Dt(weir.BufferPolicy):
    """DT: T = α (B_s − Σ w_s)."""

    def __init__(self, *, alpha: weir.Alpha = weir.Alpha("1")) -> None:
        self.alpha = alpha

    def threshold(self, queue: weir.QueueView) -> int:
        return self.alpha.scale(queue.shared_pool.free)

    def has_non_increasing_thresholds(self) -> bool:
        return True
