//! Sizes of the buffer's segments: private buffers, headroom, and the shared segment.

use weir_mmu::{BufferLayout, Charge, Xon};
use weir_units::{Alpha, Bytes};

use crate::buffer::headroom_in_cells;
use crate::{BufferConfig, Headroom, PortConfig, RateConfig, SwitchConfig, headroom_by_rule};

impl SwitchConfig {
    /// Headroom Φ of each lossless ingress queue of a port; whole cells under the rule. `None` if the rule applies and the port has no
    /// rate, which a checked configuration allows only without lossless classes.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn headroom(&self, port: usize) -> Option<Bytes> {
        self.given_headroom(port).or_else(|| match self.buffer.headroom {
            Headroom::Fixed(size) => Some(size),
            Headroom::Auto => self.headroom_by_rule(&self.ports[port]),
        })
    }

    /// Φ given for the port, or for its rate.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn given_headroom(&self, port: usize) -> Option<Bytes> {
        self.ports[port].headroom.or_else(|| self.of_rate(port)?.headroom)
    }

    /// Private buffer ρ of each ingress queue of a port.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn private(&self, port: usize) -> Bytes {
        let given = self.ports[port].private.or_else(|| self.of_rate(port)?.private);
        given.unwrap_or(self.buffer.private)
    }

    /// Factor α given for the port, or for its rate.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn given_alpha(&self, port: usize) -> Option<Alpha> {
        self.ports[port].alpha.or_else(|| self.of_rate(port)?.alpha)
    }

    fn of_rate(&self, port: usize) -> Option<&RateConfig> {
        let rate = self.ports[port].rate?;
        self.buffer.rates.iter().find(|of| of.rate == rate)
    }

    /// Headroom Φ of a port by the rule, in whole cells, plus the bytes that arrive during the switch's reaction and while a NIC's transmit
    /// backlog drains. `None` for a port without a rate.
    pub fn headroom_by_rule(&self, port: &PortConfig) -> Option<Bytes> {
        let rate = port.rate?;
        let wire = headroom_by_rule(rate, port.delay, self.frame_bytes_max()) + rate.bytes_in(self.pfc.reaction);
        let ahead = self.tx_backlog_bytes(port).unwrap_or(Bytes::ZERO);
        Some(headroom_in_cells(wire + ahead, self.buffer.cell_bytes))
    }

    /// Bytes reserved as headroom, with clones counted as ports. By the policy's requirements: Σ Φ over all lossless ingress queues, a part
    /// of it, a pool, Φ per port, or zero.
    pub fn headroom_size(&self) -> Bytes {
        let (ports, classes) = (self.headroom_of_ports(), u64::from(self.lossless_classes()));
        self.buffer.policy.layout_requirements().headroom_size(ports * classes, ports * classes.min(1))
    }

    /// B_s: the buffer less private buffers (one per port and class) and headroom. Under a policy with pools, the ingress pool, which may
    /// be less.
    pub fn shared_size(&self) -> Bytes {
        let left = self.buffer.size.saturating_sub(self.private_size()).saturating_sub(self.headroom_size());
        self.buffer.policy.layout_requirements().shared_size(left)
    }

    /// Size of the pool of lossy egress queues; `None` under a policy without pools.
    pub fn egress_lossy_pool(&self) -> Option<Bytes> {
        self.buffer.policy.layout_requirements().egress_lossy_size(self.shared_size())
    }

    /// Charge of frames on DPDK, where each takes an mbuf regardless of its length. The minimum charge is `mean_frame`, rounded down to a
    /// multiple of the shortest frame's charge, so that the buffer fills before its mbufs run out. It is at most the longest frame, and at
    /// most the buffer size over 32,768.
    ///
    /// If a port's flow control counts the buffer in bytes as its peer does, frames are charged their bytes, in cells.
    pub fn charge_per_mbuf(&self) -> Charge {
        let (charge, frame_max) = (self.buffer.charge(), self.frame_bytes_max());
        if self.ports.iter().any(|port| port.flow_control.limit().is_some()) {
            return charge;
        }
        let spared = self.buffer.size.divided_by(BufferConfig::FRAMES_ALWAYS);
        let least = self.buffer.mean_frame.unwrap_or_default().min(spared).min(frame_max);
        // Headroom holds its bytes `times` over.
        let headroom = (0..self.ports.len()).filter_map(|port| self.headroom(port)).max().unwrap_or_default();
        let most = BufferLayout::SIZE_MAX.get().checked_div(headroom.get()).unwrap_or(u64::MAX);
        let times = (least.get() / u64::from(charge.frame_charge(0))).min(most);
        charge.at_least_shortest(u32::try_from(times).unwrap_or(u32::MAX).max(1))
    }

    /// Hysteresis δ: RESUME below Xoff − δ; as configured, or two MTU-sized frames.
    pub fn xon_offset(&self) -> Bytes {
        self.buffer.xon_offset.unwrap_or(self.frame_bytes_max() * 2)
    }

    /// Levels at which ingress queues resume.
    pub fn xon(&self) -> Xon {
        Xon { offset: self.xon_offset(), floor: self.buffer.xon_floor }
    }

    /// Bytes that the buffer guarantees one lossless ingress queue of a port under a constant threshold: ρ + T + Φ, if the thresholds of
    /// all queues together fit the shared buffer. `None` under other policies, whose thresholds vary, and without
    /// [headroom](Self::headroom).
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn kept_for_a_queue(&self, port: usize) -> Option<Bytes> {
        let headroom = self.headroom(port)?;
        Some(self.private(port) + self.static_threshold()? + headroom)
    }

    /// Default of B_m: the bytes guaranteed to a queue, less one maximum-length frame for each part (private buffer, threshold, headroom),
    /// since each may end with nearly a frame free. In whole cells, rounded down; zero if no part exceeds a frame. `None` as for
    /// [`kept_for_a_queue`](Self::kept_for_a_queue).
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn b_m_by_default(&self, port: usize) -> Option<Bytes> {
        let cell = u64::from(self.buffer.cell_bytes);
        let frame_cells = self.frame_bytes_max().get().div_ceil(cell);
        let parts = [self.private(port), self.static_threshold()?, self.headroom(port)?];
        let cells = parts.map(|part| (part.get() / cell).saturating_sub(frame_cells));
        Some(Bytes::new(cells.iter().sum::<u64>() * cell))
    }

    /// T of a policy with a constant threshold; `None` for others.
    pub fn static_threshold(&self) -> Option<Bytes> {
        Some(self.buffer.policy.constant_threshold()?.threshold(self.shared_size(), self.ports.len()))
    }

    /// Sum of ρ over all ports and classes.
    pub fn private_size(&self) -> Bytes {
        (0..self.ports.len()).map(|port| self.private(port) * 8).sum()
    }

    /// Sum of Φ over the ports, for one lossless class.
    pub(crate) fn headroom_of_ports(&self) -> Bytes {
        (0..self.ports.len()).filter_map(|port| self.headroom(port)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// 12 MB, 2 KB for each of 16 queues, Φ = 60 KB for each of 4 lossless queues.
    fn cut(buffer: &str) -> SwitchConfig {
        switch(buffer, "lossless = [3, 4]")
    }

    fn switch(buffer: &str, classes: &str) -> SwitchConfig {
        let text = format!(
            "[[ports]]\nname = \"p0\"\ntap = \"t0\"\n[[ports]]\nname = \"p1\"\ntap = \"t1\"\n\
             [classes]\n{classes}\n[buffer]\nprivate = \"2KB\"\nheadroom = \"60KB\"\n{buffer}"
        );
        parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
    }

    fn sizes(config: &SwitchConfig) -> (u64, u64, Option<u64>) {
        (config.headroom_size().get(), config.shared_size().get(), config.egress_lossy_pool().map(Bytes::get))
    }

    #[test]
    fn most_policies_keep_headroom_for_every_lossless_queue() {
        for policy in ["static", "dt", "spfc", "reverie"] {
            let config = cut(&format!("policy = \"{policy}\""));
            assert_eq!(sizes(&config), (240_000, 12_000_000 - 32_000 - 240_000, None), "{policy}");
            assert_eq!(sizes(&switch(&format!("policy = \"{policy}\""), "lossless = []")).0, 0, "{policy}");
        }
    }

    #[test]
    fn sih_and_adaptive_headroom_are_cut_by_the_rule() {
        for policy in ["sih", "adaptive"] {
            let text = format!(
                "[buffer]\npolicy = \"{policy}\"\n[pfc]\nreaction = \"0s\"\n\
                 [[ports]]\nname = \"p0\"\ntap = \"t0\"\nrate = \"10Gbps\"\n\
                 [[ports]]\nname = \"p1\"\ntap = \"t1\"\nrate = \"40Gbps\"\ndelay = \"1.5us\"\n"
            );
            let config = parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
            // 2 (125 + 1522) + 3840 and 2 (7500 + 1522) + 3840, for two classes each.
            let headroom = 2 * (7_134 + 21_884);
            assert_eq!(sizes(&config), (headroom, 12_000_000 - headroom, None), "{policy}");
        }
    }

    #[test]
    fn an_oversubscribed_pool_is_a_part_rounded_down() {
        let config = cut("policy = \"oversubscribed\"");
        assert_eq!(sizes(&config), (192_000, 11_776_000, None));
        let config = cut("policy = \"oversubscribed\"\n[buffer.oversubscribed]\nheadroom_percent = 33");
        assert_eq!(sizes(&config).0, 79_200);
        let mut config = config;
        config.buffer.headroom = Headroom::Fixed(Bytes::new(60_001));
        assert_eq!(sizes(&config).0, 79_201, "of 79,201.32");
    }

    #[test]
    fn dsh_keeps_headroom_once_a_port() {
        let shared = 12_000_000 - 32_000;
        assert_eq!(sizes(&cut("policy = \"dsh\"")), (120_000, shared - 120_000, None));
        let uninsured = "policy = \"dsh\"\n[buffer.dsh]\ninsurance = false";
        assert_eq!(sizes(&cut(uninsured)), (0, shared, None));
        assert_eq!(sizes(&switch("policy = \"dsh\"", "lossless = []")), (0, shared, None));
        assert_eq!(sizes(&switch("policy = \"dsh\"", "lossless = [0, 1, 2, 3, 4, 5, 6, 7]")).0, 120_000);
    }

    #[test]
    fn sonics_pools_have_defaults_from_each_other() {
        for policy in ["sonic", "abm"] {
            let pools = |keys: &str| sizes(&cut(&format!("policy = \"{policy}\"\n[buffer.{policy}]\n{keys}")));
            assert_eq!(pools(""), (240_000, 11_728_000, Some(9_382_400)), "{policy}");
            assert_eq!(pools("headroom_pool = \"60KB\""), (60_000, 11_908_000, Some(9_526_400)));
            assert_eq!(pools("ingress_pool = \"6MB\""), (240_000, 6_000_000, Some(4_800_000)));
            assert_eq!(pools("egress_lossy_pool = \"3MB\""), (240_000, 11_728_000, Some(3_000_000)));
            // Sizes that fill the buffer to the byte.
            let all = "ingress_pool = \"10.968MB\"\nheadroom_pool = \"1MB\"\negress_lossy_pool = \"10.968MB\"";
            assert_eq!(pools(all), (1_000_000, 10_968_000, Some(10_968_000)));
        }
    }

    #[test]
    fn the_static_policy_keeps_a_threshold_and_headroom_for_a_queue() {
        let kept = |config: &SwitchConfig| (config.kept_for_a_queue(1), config.b_m_by_default(1));
        let sizes = |kept, b_m| (Some(Bytes::new(kept)), Some(Bytes::new(b_m)));
        let given = "policy = \"static\"\n[buffer.static]\nthreshold = \"100KB\"";
        assert_eq!(kept(&cut(given)), sizes(162_000, 157_434));
        // 12 MB less 16 x 2 KB and 4 x 60 KB, for two ports.
        let mut even = cut("policy = \"static\"");
        assert_eq!(kept(&even), sizes(5_926_000, 5_921_434));
        even.buffer.size = Bytes::new(11_999_999);
        assert_eq!(kept(&even), sizes(5_925_999, 5_921_433));
        for policy in ["dt", "sonic", "dsh"] {
            assert_eq!(kept(&cut(&format!("policy = \"{policy}\""))), (None, None), "{policy}");
        }
    }

    #[test]
    fn b_m_is_a_multiple_of_cells() {
        // 9, 480 and 288 whole cells, of each of which a frame of 1,522 B takes 8.
        let cells = cut("cell_bytes = 208\npolicy = \"static\"\n[buffer.static]\nthreshold = \"100KB\"");
        assert_eq!(cells.b_m_by_default(0), Some(Bytes::new(753 * 208)));
        let mut small = cells;
        small.buffer.headroom = Headroom::Fixed(Bytes::ZERO);
        small.buffer.policy = weir_mmu::policy::parse_config("static", "threshold = \"1B\"").unwrap();
        small.buffer.private = Bytes::new(1_500);
        assert_eq!((small.kept_for_a_queue(0), small.b_m_by_default(0)), (Some(Bytes::new(1_501)), Some(Bytes::ZERO)));
    }

    #[test]
    fn ports_have_sizes_of_their_own_and_by_their_rate() {
        let text = "[buffer]\nprivate = \"2KB\"\nheadroom = \"60KB\"\npolicy = \"dt\"\n[buffer.dt]\nalpha = \"1/8\"\n\
             [[buffer.rates]]\nrate = \"400Gbps\"\nheadroom = \"200KB\"\nalpha = \"1/2\"\n\
             [[buffer.rates]]\nrate = \"25Gbps\"\nprivate = \"1KB\"\n[classes]\nlossless = [3, 4]\n\
             [[ports]]\nname = \"a\"\ntap = \"a\"\nrate = \"400Gbps\"\n\
             [[ports]]\nname = \"b\"\ntap = \"b\"\nrate = \"400Gbps\"\nheadroom = \"90KB\"\nprivate = \"3KB\"\nalpha = \"1/4\"\n\
             [[ports]]\nname = \"c\"\ntap = \"c\"\nrate = \"25Gbps\"\n\
             [[ports]]\nname = \"d\"\ntap = \"d\"\nrate = \"100Gbps\"\n[[ports]]\nname = \"e\"\ntap = \"e\"\n";
        let config = parse("lab", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let of = |port| (config.headroom(port).unwrap().get(), config.private(port).get());
        let kept = [(200_000, 2_000), (90_000, 3_000), (60_000, 1_000), (60_000, 2_000), (60_000, 2_000)];
        assert_eq!([0, 1, 2, 3, 4].map(of), kept);
        assert_eq!(config.private_size(), Bytes::kb(8 * (2 + 3 + 1 + 2 + 2)));
        assert_eq!(config.headroom_size(), Bytes::kb(2 * (200 + 90 + 60 + 60 + 60)));
        let alphas = [0, 1, 2, 3, 4].map(|port| config.given_alpha(port).map(|alpha| alpha.to_string()));
        assert_eq!(alphas, [Some("1/2".to_owned()), Some("1/4".to_owned()), None, None, None]);
    }

    #[test]
    fn a_pool_without_lossless_classes_may_be_empty() {
        let config = switch("policy = \"sonic\"\n[buffer.sonic]\nheadroom_pool = \"0B\"", "lossless = []");
        assert_eq!(sizes(&config).0, 0);
    }
}
