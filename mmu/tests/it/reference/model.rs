//! The rules, one packet after another, in plain integers: dsh Algorithm 1 and IV, spfc IV-V, reverie 2.2 and 3.
//!
//! Written from the papers and apart from the crate: no atomics, no packed words, no windows that roll by themselves;
//! departures are a list that is searched. α is 1 throughout.

use weir_mmu::{Admission, BufferLayout, BufferRequest, DropReason, Headroom, Segment, Xon};
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Span, Time};

/// Model of an MMU.
pub(crate) struct Model {
    pub name: &'static str,
    pub layout: BufferLayout,
    pub rate: BitRate,
    /// Bytes of charges that a byte of headroom holds.
    times: u64,
    xon_offset: u64,
    xon_floor: u64,
    pub now: Time,
    pub queues: Vec<Queue>,
    pub egress: Vec<Egress>,
    pub port_off: Vec<bool>,
    /// DSH, Algorithm 4: the class that arrived last, since when, and whether for long enough.
    last_class: Vec<(Option<Class>, Time, bool)>,
    departures: Vec<Departed>,
}

/// An ingress queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub private: u64,
    pub shared: u64,
    pub headroom: u64,
    pub off: bool,
    pub limit: u64,
    /// Instant from which the headroom may be lent; bytes returned since.
    lend_from: Time,
    lent: bool,
    returned: u64,
    /// q̂, in units of 2^-20 bytes.
    average: u64,
    /// Share in n_p, in units of 2^-16.
    congested: u64,
    growth: Growth,
    delay: Delay,
}

/// An egress queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Egress {
    pub length: u64,
    average: u64,
    congested: u64,
}

/// DSH, Algorithm 2, in units of 2^-20 bytes a nanosecond.
#[derive(Clone, Debug, Default)]
struct Growth {
    last: Option<(Time, u64)>,
    mean: i128,
    deviation: i128,
    estimate: u64,
}

/// Adaptive headroom.
#[derive(Clone, Debug, Default)]
struct Delay {
    off_at: Option<Time>,
    last_at: Time,
    longest: Span,
    samples: u32,
}

struct Departed {
    at: Time,
    ingress: QueueId,
    egress: QueueId,
    bytes: u64,
}

const CONGESTED: u64 = 20_480;
const GAMMA_WEIGHT: u128 = 4_294_968; // 0.001 in units of 2^-32, rounded up.

impl Model {
    pub(crate) fn new(name: &'static str, layout: BufferLayout, times: u64, rate: BitRate, xon: Xon) -> Model {
        let ports = layout.ports().len();
        let limits = layout.ports().iter().flat_map(|port| port.headroom);
        Model {
            queues: limits.map(|phi| Queue { limit: phi.get() * times, ..Queue::default() }).collect(),
            egress: vec![Egress::default(); ports * 8],
            port_off: vec![false; ports],
            last_class: vec![(None, Time::ZERO, false); ports],
            departures: Vec::new(),
            name,
            layout,
            rate,
            times,
            xon_offset: xon.offset.get(),
            // Reverie resumes where it pauses.
            xon_floor: if name.starts_with("reverie") { 0 } else { xon.floor.get() },
            now: Time::ZERO,
        }
    }

    pub(crate) fn is_lossless(&self, queue: QueueId) -> bool {
        self.layout.is_lossless(queue.port(), queue.class())
    }

    pub(crate) fn is_dsh(&self) -> bool {
        self.name.starts_with("dsh")
    }

    /// Size of the shared segment, which adapted headroom enlarges, and the bytes in use.
    pub(crate) fn shared(&self) -> (u64, u64) {
        let given: u64 = self.layout.ports().iter().flat_map(|port| port.headroom).map(|phi| phi.get()).sum();
        let kept: u64 = self.queues.iter().map(|queue| queue.limit / self.times).sum();
        let lent = self.queues.iter().filter(|queue| queue.lent);
        let free = |queue: &Queue| queue.limit / self.times - queue.headroom.div_ceil(self.times) - queue.returned;
        let lent: u64 = lent.map(free).sum();
        let shared: u64 = self.queues.iter().map(|queue| queue.shared).sum();
        (self.layout.shared().get() + given - kept + lent, shared)
    }

    /// Free bytes of the shared segment without lent headroom.
    fn free_of_own(&self) -> u64 {
        self.layout.shared().get().saturating_sub(self.shared().1)
    }

    /// Reverie as its authors' simulator has it, the default.
    fn is_simulators(&self) -> bool {
        ["reverie", "reverie-whole-bytes"].contains(&self.name)
    }

    /// Applies a departure's step to an average, which becomes zero with the length.
    fn filter_departure(&self, average: &mut u64, length: u64) {
        filter(average, length);
        if self.name == "reverie-whole-bytes" {
            *average &= !0 << 20;
        }
        if self.is_simulators() || length == 0 {
            *average = (*average).min(length << 20);
        }
    }

    fn free(&self) -> u64 {
        let (capacity, used) = self.shared();
        capacity.saturating_sub(used)
    }

    pub(crate) fn headroom_used(&self) -> u64 {
        self.queues.iter().map(|queue| queue.headroom).sum()
    }

    /// Bytes of lossy packets in the shared segment, which the egress lossy pool counts.
    pub(crate) fn lossy_pool_used(&self) -> u64 {
        let ids = (0..self.layout.ports().len() as u16)
            .flat_map(|port| Class::ALL.map(|class| QueueId::new(PortId(port), class)));
        ids.filter(|id| !self.is_lossless(*id)).map(|id| self.queues[id.index()].shared).sum()
    }

    /// Admits a burst, queue by queue in the order of their first packets: by ingress queue, and by egress queue too if lossy.
    pub(crate) fn admit(&mut self, burst: &[BufferRequest]) -> Vec<Admission> {
        // Headroom is adapted before the burst.
        for arrival in burst {
            self.adapt(arrival.ingress);
        }
        let mut queues: Vec<(Vec<BufferRequest>, Vec<usize>)> = Vec::new();
        for (place, arrival) in burst.iter().enumerate() {
            let lossless = self.is_lossless(arrival.ingress);
            let is_of = |other: &BufferRequest| {
                other.ingress == arrival.ingress && (lossless || other.egress == arrival.egress)
            };
            match queues.iter_mut().find(|(packets, _)| is_of(&packets[0])) {
                Some((packets, places)) => {
                    packets.push(*arrival);
                    places.push(place);
                }
                None => queues.push((vec![*arrival], vec![place])),
            }
        }
        let mut verdicts = vec![Admission::Drop(DropReason::SharedFull); burst.len()];
        for (packets, places) in queues {
            places.into_iter().zip(self.admit_run(&packets)).for_each(|(place, verdict)| verdicts[place] = verdict);
        }
        verdicts
    }

    fn admit_run(&mut self, run: &[BufferRequest]) -> Vec<Admission> {
        let id = run[0].ingress;
        let lossless = self.is_lossless(id);
        if lossless {
            self.announce(id, run.iter().map(|arrival| u64::from(arrival.bytes)).sum());
        }
        let verdicts = run.iter().map(|arrival| self.place(*arrival, lossless)).collect();
        if lossless {
            let queue = &mut self.queues[id.index()];
            if queue.off && queue.delay.off_at.is_none() {
                (queue.delay.off_at, queue.delay.last_at) = (Some(self.now), self.now);
            }
        }
        self.note_congestion(id, run[0].egress);
        verdicts
    }

    fn place(&mut self, arrival: BufferRequest, lossless: bool) -> Admission {
        let bytes = u64::from(arrival.bytes);
        let (id, to) = (arrival.ingress, arrival.egress);
        let private = self.layout.ports()[id.port().index()].private[id.class().index()].get();
        let fits = self.free() >= bytes;
        let verdict = if self.queues[id.index()].private + bytes <= private {
            self.queues[id.index()].private += bytes;
            Admission::Admit(Segment::Private)
        } else if lossless {
            self.place_lossless(id, bytes, fits)
        } else {
            let limit = self.lossy_threshold(to);
            let (used, size) = (self.lossy_pool_used(), self.layout.egress_lossy());
            if self.egress[to.index()].length + bytes > limit || size.is_some_and(|size| used + bytes > size.get()) {
                Admission::Drop(DropReason::EgressThreshold)
            } else if fits {
                self.queues[id.index()].shared += bytes;
                Admission::Admit(Segment::Shared)
            } else {
                Admission::Drop(DropReason::SharedFull)
            }
        };
        if matches!(verdict, Admission::Admit(_)) {
            self.egress[to.index()].length += bytes;
        }
        if self.is_simulators() {
            // Only departures are steps.
        } else if lossless {
            let queue = &mut self.queues[id.index()];
            filter(&mut queue.average, queue.shared);
        } else {
            let queue = &mut self.egress[to.index()];
            filter(&mut queue.average, queue.length);
        }
        verdict
    }

    fn place_lossless(&mut self, id: QueueId, bytes: u64, fits: bool) -> Admission {
        let (admit, xoff) = self.threshold(id);
        let port = id.port().index();
        let (port_threshold, port_shared) = (self.port_threshold(port), self.port_shared(port));
        let within_port = !self.is_dsh() || port_shared + bytes <= port_threshold;
        let room = match self.layout.headroom_from() {
            Headroom::PerQueue => u64::MAX,
            Headroom::Pool(size) => size.get() * self.times - self.headroom_used(),
            Headroom::PerPort => {
                let used: u64 = self.of_port(port).iter().map(|queue| queue.headroom).sum();
                self.layout.ports()[port].headroom_max().get() * self.times - used
            }
            Headroom::Uninsured => 0,
        };
        let dsh = self.is_dsh();
        let (times, free, now) = (self.times, self.free(), self.now);
        let link_time = self.rate.time_for(Bytes::new(self.layout.ports()[port].headroom[id.class().index()].get()));
        let queue = &mut self.queues[id.index()];
        let more = (queue.headroom + bytes).div_ceil(times) - queue.headroom.div_ceil(times);
        let room = if queue.lent && more > free { 0 } else { room };
        let was_off = queue.off;
        let verdict = if queue.shared + bytes <= admit && within_port && fits {
            queue.shared += bytes;
            Admission::Admit(Segment::Shared)
        } else if bytes <= room && (dsh || queue.headroom + bytes <= queue.limit) {
            queue.headroom += bytes;
            Admission::Admit(Segment::Headroom)
        } else {
            Admission::Drop(DropReason::HeadroomViolation)
        };
        if dsh {
            // A packet beyond the shared segment pauses the port; the queue is judged by its present occupancy.
            self.port_off[port] |=
                verdict != Admission::Admit(Segment::Shared) || self.port_shared(port) >= port_threshold;
            let (_, xoff) = self.threshold(id);
            let queue = &mut self.queues[id.index()];
            queue.off |= queue.shared >= xoff;
        } else {
            queue.off |= verdict != Admission::Admit(Segment::Shared) || queue.shared >= xoff;
        }
        let queue = &mut self.queues[id.index()];
        if queue.off && !was_off {
            queue.lend_from = now.saturating_add(link_time);
        }
        verdict
    }

    /// Maximum w_s including an arrival, and Xoff.
    fn threshold(&self, id: QueueId) -> (u64, u64) {
        let queue = &self.queues[id.index()];
        let free = self.free();
        match self.name {
            "static" => {
                let even = self.layout.shared().get() / self.layout.ports().len() as u64;
                (even, even)
            }
            "spfc" | "spfc-window-end" => {
                let port = id.port().index();
                let threshold = if !self.is_paused(port) && self.is_victim(port) { self.shared().0 } else { free };
                (threshold, threshold)
            }
            "spfc-all-memory" => {
                let port = id.port().index();
                let is_victim = !self.is_paused(port) && self.is_victim(port);
                let threshold = if is_victim { self.shared().0 } else { self.free_of_own() };
                (threshold, threshold)
            }
            "abm" => {
                let threshold =
                    (self.shared_out(free, id.class(), true) * self.drain_share(id, queue.shared, true)) >> 16;
                (threshold, threshold)
            }
            "reverie" | "reverie-text" | "reverie-whole-bytes" => {
                let (average, bound) = (queue.average.div_ceil(1 << 20), self.shared_out(free, id.class(), true));
                let holds = match self.is_simulators() && queue.off {
                    true => average < 1_248 || average + 2_496 <= bound,
                    false => average <= bound,
                };
                (if holds && !queue.off { u64::MAX } else { 0 }, if holds { u64::MAX } else { 0 })
            }
            "dsh-no-shared" => (free, free),
            _ if self.is_dsh() => {
                let alone = self.last_class[id.port().index()].2;
                (u64::MAX, free.saturating_sub(if alone { 0 } else { queue.growth.estimate }))
            }
            _ => (free, free),
        }
    }

    fn port_threshold(&self, port: usize) -> u64 {
        let queues = if self.name == "dsh-port-queues" { 8 } else { self.layout.ports()[port].lossless.len() as u64 };
        queues * self.free()
    }

    fn lossy_threshold(&self, to: QueueId) -> u64 {
        let queue = &self.egress[to.index()];
        let lossy_free = || self.layout.egress_lossy().expect("a lossy pool").get() - self.lossy_pool_used();
        match self.name {
            "sonic" => lossy_free(),
            "spfc-all-memory" => self.free_of_own(),
            "abm" => {
                let share = self.shared_out(lossy_free(), to.class(), false);
                (share * self.drain_share(to, queue.length, false)) >> 16
            }
            "reverie" | "reverie-text" | "reverie-whole-bytes" => {
                let holds = queue.average.div_ceil(1 << 20) <= self.shared_out(self.free(), to.class(), false);
                if holds { u64::MAX } else { 0 }
            }
            _ => self.free(),
        }
    }

    pub(crate) fn release(&mut self, burst: &[BufferRequest]) {
        for departure in burst {
            let (id, mut left) = (departure.ingress, u64::from(departure.bytes));
            let queue = &mut self.queues[id.index()];
            for segment in [&mut queue.headroom, &mut queue.shared, &mut queue.private] {
                let taken = left.min(*segment);
                *segment -= taken;
                left -= taken;
            }
            assert_eq!(left, 0, "released more than was held");
            let lossless = self.is_lossless(id);
            let egress = &mut self.egress[departure.egress.index()];
            egress.length -= u64::from(departure.bytes);
            if lossless {
                let queue = &self.queues[id.index()];
                let length = queue.shared + if self.is_simulators() { queue.headroom } else { 0 };
                let mut average = queue.average;
                self.filter_departure(&mut average, length);
                self.queues[id.index()].average = average;
            } else {
                let mut average = egress.average;
                let length = egress.length;
                self.filter_departure(&mut average, length);
                self.egress[departure.egress.index()].average = average;
            }
            self.departures.push(Departed {
                at: self.now,
                ingress: id,
                egress: departure.egress,
                bytes: u64::from(departure.bytes),
            });
        }
        // Congestion is judged when a run has left.
        for departure in burst {
            let queue = &self.queues[departure.ingress.index()];
            if !self.is_simulators() || queue.off && queue.headroom == 0 {
                self.note_congestion(departure.ingress, departure.egress);
            }
        }
        // The sweep resumes queues after lossy departures. Each pair of queues is looked at once, since headroom that one queue lends
        // another may take.
        for (place, departure) in burst.iter().enumerate() {
            let pair = |other: &BufferRequest| (other.ingress, other.egress) == (departure.ingress, departure.egress);
            if self.is_lossless(departure.ingress) && !burst[..place].iter().any(pair) {
                self.reconsider(departure.ingress);
                self.reconsider_port(departure.ingress.port().index());
            }
        }
    }

    pub(crate) fn reconsider(&mut self, id: QueueId) {
        let (_, xoff) = self.threshold(id);
        let (xon_offset, floor) = (self.xon_offset, self.xon_floor);
        let (lends, times, free, now) = (self.name == "spfc-all-memory", self.times, self.free(), self.now);
        let queue = &mut self.queues[id.index()];
        let resumes = queue.headroom == 0 && (queue.shared <= floor || queue.shared + xon_offset < xoff);
        let whole = queue.limit / times;
        if resumes {
            if queue.lent {
                queue.returned += (whole - queue.returned).min(free);
            }
            if !queue.lent || queue.returned == whole {
                (queue.off, queue.lent) = (false, false);
            }
        } else if lends && queue.off && !queue.lent && now >= queue.lend_from {
            (queue.lent, queue.returned) = (true, 0);
        }
    }

    pub(crate) fn reconsider_port(&mut self, port: usize) {
        let shared = self.port_shared(port);
        let empty = self.of_port(port).iter().all(|queue| queue.headroom == 0);
        if empty && (shared == 0 || shared + self.xon_offset < self.port_threshold(port)) {
            self.port_off[port] = false;
        }
    }

    fn of_port(&self, port: usize) -> &[Queue] {
        &self.queues[port * 8..][..8]
    }

    /// Bytes of the port's lossless queues in the shared segment. Lossy queues don't count: flow control is not theirs.
    fn port_shared(&self, port: usize) -> u64 {
        let lossless = (self.layout.ports()[port].lossless).iter();
        lossless.map(|class| self.of_port(port)[class.index()].shared).sum()
    }

    pub(crate) fn is_paused(&self, port: usize) -> bool {
        self.of_port(port).iter().any(|queue| queue.off)
    }

    /// SPFC: 20 % of the bytes that C carries in 80 us departed in the last complete window or, unless it must end first, in the current
    /// one.
    pub(crate) fn is_victim(&self, port: usize) -> bool {
        let window = Span::from_micros(80);
        let windows_ago: &[u64] = if self.name == "spfc-window-end" { &[1] } else { &[0, 1] };
        let counts = windows_ago
            .iter()
            .map(|ago| self.departed(window, *ago, |departed| departed.ingress.port().index() == port));
        counts.max() >= Some(self.rate.bytes_in(window).get().div_ceil(5))
    }

    /// DSH: φ̂.
    pub(crate) fn estimate(&self, id: QueueId) -> u64 {
        self.queues[id.index()].growth.estimate
    }

    fn drain_share(&self, id: QueueId, length: u64, ingress: bool) -> u64 {
        let interval = Span::from_micros(25);
        let drained = self.departed(interval, 1, |departed| {
            let lossless = self.is_lossless(departed.ingress);
            lossless == ingress && id == if ingress { departed.ingress } else { departed.egress }
        });
        if length < CONGESTED || drained <= 2_048 {
            return 1 << 16;
        }
        let reciprocal = (1 << 40) / self.rate.bytes_in(interval).get();
        ((drained * reciprocal) >> 24).min(1 << 16)
    }

    /// Bytes in the window `windows_ago`: 0 is the current one, 1 the last complete one.
    fn departed(&self, window: Span, windows_ago: u64, which: impl Fn(&Departed) -> bool) -> u64 {
        let number = |at: Time| at.as_picos() / window.as_picos();
        let now = number(self.now);
        let then = self.departures.iter().filter(|departed| number(departed.at) + windows_ago == now);
        then.filter(|departed| which(departed)).map(|departed| departed.bytes).sum()
    }

    /// A number divided by n_p.
    fn shared_out(&self, number: u64, class: Class, ingress: bool) -> u64 {
        let parts: Vec<u64> = match ingress {
            true => self.queues.iter().skip(class.index()).step_by(8).map(|queue| queue.congested).collect(),
            false => self.egress.iter().skip(class.index()).step_by(8).map(|queue| queue.congested).collect(),
        };
        (number << 16) / parts.iter().sum::<u64>().max(1 << 16)
    }

    /// Updates the shares in n_p: by the real length for ABM, by the filtered one for Reverie.
    fn note_congestion(&mut self, ingress: QueueId, egress: QueueId) {
        let part = |average: u64, length: u64| {
            let by = if self.name.starts_with("reverie") { average.div_ceil(1 << 20) } else { length };
            match by {
                CONGESTED.. => 1 << 16,
                _ if self.is_simulators() => (by << 16) / CONGESTED,
                _ => 0,
            }
        };
        if self.is_lossless(ingress) {
            let queue = &self.queues[ingress.index()];
            self.queues[ingress.index()].congested = part(queue.average, queue.shared);
        } else {
            let queue = &self.egress[egress.index()];
            self.egress[egress.index()].congested = part(queue.average, queue.length);
        }
    }

    fn announce(&mut self, id: QueueId, bytes: u64) {
        let (port, now) = (id.port().index(), self.now);
        let phi = self.layout.ports()[port].headroom_max().get();
        let rate = i128::from(self.rate.as_bps()) * (1 << 20) / 8_000_000_000;
        let activity = &mut self.last_class[port];
        if activity.0 != Some(id.class()) {
            *activity = (Some(id.class()), now, false);
        } else if now.since(activity.1) > Span::from_millis(10) {
            activity.2 = true;
        }
        let queue = &mut self.queues[id.index()];
        let length = queue.shared + queue.headroom + bytes;
        queue.growth.arrive(now, length, rate, phi);
        if let Some(off_at) = queue.delay.off_at {
            if queue.off {
                queue.delay.last_at = now;
            } else {
                queue.delay.longest = queue.delay.longest.max(queue.delay.last_at.since(off_at));
                queue.delay.samples += 1;
                queue.delay.off_at = None;
            }
        }
    }

    /// Adaptive headroom: after 4 PAUSEs the bytes that C carries in the longest delay, a quarter more, and two frames.
    fn adapt(&mut self, id: QueueId) {
        if self.name != "adaptive" || !self.is_lossless(id) {
            return;
        }
        let phi = self.layout.ports()[id.port().index()].headroom[id.class().index()].get();
        let queue = &self.queues[id.index()];
        if queue.delay.samples < 4 || queue.off || queue.headroom > 0 {
            return;
        }
        let in_flight = self.rate.bytes_in(queue.delay.longest).get();
        let wanted = (in_flight + in_flight / 4 + 2 * 1_522).min(phi);
        let limit = queue.limit / self.times;
        let more = wanted.saturating_sub(limit).min(self.free());
        self.queues[id.index()].limit = wanted.min(limit + more) * self.times;
    }
}

impl Growth {
    fn arrive(&mut self, now: Time, length: u64, rate: i128, phi: u64) {
        if let Some((at, before)) = self.last {
            if at == now {
                return;
            }
            let elapsed = i128::from(now.since(at).as_picos());
            let gradient = ((i128::from(length) - i128::from(before)) * (1_000 << 20) / elapsed).min(rate);
            let off = (self.mean - gradient).abs();
            // Truncated toward zero, as the crate does.
            self.mean += (gradient - self.mean) / 4;
            self.deviation += (off - self.deviation) / 4;
            let estimate = (self.mean + 4 * self.deviation).clamp(0, rate);
            self.estimate = (estimate * i128::from(phi) / rate) as u64;
        }
        self.last = Some((now, length));
    }
}

/// Reverie, equation 5, a step for a packet; rounded toward q.
fn filter(average: &mut u64, length: u64) {
    let target = u128::from(length) << 20;
    let from = u128::from(*average);
    let part = (target.abs_diff(from) * GAMMA_WEIGHT).div_ceil(1 << 32);
    *average = if target >= from { from + part } else { from - part } as u64;
}
