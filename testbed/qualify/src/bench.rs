//! Bench: a tester, a device, and the steps that tests have in common.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, FCS_BYTES, LINK_OVERHEAD, MacAddr, Span};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::tester::{
    Amount, ControlStats, ControlStream, Lengths, Marking, PfcReaction, StreamId, StreamStats, TestStream,
};
use crate::{
    BufferFacts, DeviceCounters, DeviceUnderTest, Disturbance, Facts, TestFailure, TrafficTester, WatchdogFacts,
};

/// Tester and device of one test, and its findings so far.
pub struct Bench<'d> {
    /// Tester.
    pub tester: &'d mut dyn TrafficTester,
    /// Device under test.
    pub device: &'d mut dyn DeviceUnderTest,
    /// Facts of the device.
    pub facts: Facts,
    /// Lengths of the frames in tests of frame lengths.
    pub frame_lengths: Vec<u32>,
    /// Ports of tests with one sender: that of data, and that of the receiver, which also sends PFC.
    pub t: usize,
    /// Receiver.
    pub r: usize,
    /// Second sender, of the same speed; `None` if the device has two such ports only.
    second: Option<usize>,
    measured: Vec<String>,
    failures: Vec<String>,
    /// Whether no disturbance explains one of the failures.
    is_conclusive: bool,
    /// Period of the last storm.
    storm_period: Option<Span>,
}

/// Length of frames where a test does not say otherwise, with FCS.
pub const LENGTH: u32 = 1_024;
/// Tolerance of rates, in percent.
pub const RATE_PERCENT: f64 = 2.0;
/// Longest pause time, in quanta.
pub const QUANTA_MAX: u16 = u16::MAX;

/// Stream with its class, for checks.
#[derive(Clone, Copy, Debug)]
pub struct TestFlow {
    /// Number of the stream.
    pub id: StreamId,
    /// Port that receives.
    pub to: usize,
    /// Class.
    pub class: Class,
    /// Rate on the wire.
    pub rate: BitRate,
}

/// Frames that the device holds as a sender is resumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResumePoint {
    pub(crate) held: u64,
    pub(crate) is_resumed: bool,
}

impl<'d> Bench<'d> {
    /// Creates a bench of these.
    ///
    /// # Errors
    /// If the device has no two ports of one speed in one ASIC that trust DSCP.
    pub fn new(
        tester: &'d mut dyn TrafficTester,
        device: &'d mut dyn DeviceUnderTest,
        frame_lengths: &[u32],
    ) -> Result<Bench<'d>, TestFailure> {
        let facts = device.facts().clone();
        if facts.ports.len() != tester.ports() {
            let (known, ports) = (facts.ports.len(), tester.ports());
            return Err(TestFailure::broken(format!(
                "{ports} ports of the tester, but facts of {known} ports of the device"
            )));
        }
        let alike = |first: &usize, port: &usize| {
            let [one, other] = [*first, *port].map(|port| (tester.rate(port), facts.ports[port].asic));
            one == other && facts.ports[*port].dscp.is_some()
        };
        let ports = 0..tester.ports();
        let sets = ports.clone().map(|first| ports.clone().filter(|port| alike(&first, port)).collect::<Vec<usize>>());
        let Some([t, r, rest @ ..]) =
            sets.max_by_key(|set| (set.len().min(3), std::cmp::Reverse(set.first().copied()))).map(|set| {
                let mut ports = [None; 3];
                set.into_iter().take(3).zip(&mut ports).for_each(|(port, slot)| *slot = Some(port));
                ports
            })
        else {
            return Err(TestFailure::impossible(TWO_PORTS));
        };
        let (Some(t), Some(r)) = (t, r) else { return Err(TestFailure::impossible(TWO_PORTS)) };
        Ok(Bench {
            facts,
            frame_lengths: frame_lengths.to_vec(),
            t,
            r,
            second: rest[0],
            tester,
            device,
            measured: Vec::new(),
            failures: Vec::new(),
            is_conclusive: false,
            storm_period: None,
        })
    }

    /// Takes the test's measured values and unmet expectations, and whether one of these is conclusive: no disturbance explains it.
    pub fn take_findings(&mut self) -> (Vec<String>, Vec<String>, bool) {
        let is_conclusive = std::mem::replace(&mut self.is_conclusive, false);
        (std::mem::take(&mut self.measured), std::mem::take(&mut self.failures), is_conclusive)
    }

    /// Returns true unless disturbances so far explain that a time is wrong by `error`: each end may be late, and the scheduler's delay,
    /// a millisecond and less at a short pause, comes on top.
    fn is_beyond_lateness(&mut self, error: Span) -> bool {
        let late = self.tester.disturbance().late + self.device.disturbance().late;
        let of_scheduler = self.pause(self.r).divided_by(64).min(Span::from_millis(1));
        late == Span::ZERO || error > late * 2 + of_scheduler
    }

    /// Returns true unless disturbances so far explain a wrong count: frames were lost, or late by the time in which tests let them arrive
    /// ([`Bench::settle`]).
    fn is_beyond_settling(&mut self) -> bool {
        let [tester, device] = [self.tester.disturbance(), self.device.disturbance()];
        let late = tester.late + device.late;
        let are_lost = !tester.losses.is_empty() || !device.losses.is_empty();
        !are_lost && late < self.pause(self.r).divided_by(16)
    }

    /// Returns true unless disturbances so far explain that frames of this time on the wire are missing.
    fn is_beyond_losses(&mut self, time: Span) -> bool {
        let [tester, device] = [self.tester.disturbance(), self.device.disturbance()];
        let late = tester.late_total + device.late_total;
        let are_lost = !tester.losses.is_empty() || !device.losses.is_empty();
        !are_lost && (late == Span::ZERO || time > late * 2)
    }

    /// Returns the disturbances of tester and device since the last restoration, which may explain a failed test.
    pub fn disturbances(&mut self) -> Vec<String> {
        let both = [("tester", self.tester.disturbance()), ("device", self.device.disturbance())];
        let texts = both.into_iter().flat_map(|(whose, Disturbance { late, losses, .. })| {
            let late = (late > Span::ZERO).then(|| format!("the {whose} was up to {} late", text_of(late)));
            late.into_iter().chain(losses)
        });
        texts.collect()
    }

    /// Records a measured value.
    pub fn record(&mut self, text: impl Into<String>) {
        self.measured.push(text.into());
    }

    /// Records an expectation that was not met. Lost frames explain it, and a tester or device that was late by a part of the longest pause.
    pub fn fail(&mut self, port: usize, class: Class, expected: &str, measured: &str) {
        let is_conclusive = self.is_beyond_settling();
        self.fail_with(is_conclusive, port, class, expected, measured);
    }

    /// Records a time that is wrong by `error` if that is above zero.
    pub fn expect_time(&mut self, error: Span, port: usize, class: Class, expected: &str, measured: &str) {
        if error > Span::ZERO {
            let is_conclusive = self.is_beyond_lateness(error);
            self.fail_with(is_conclusive, port, class, expected, measured);
        }
    }

    /// Records an expectation that was not met, with the counters that explain it.
    fn fail_with(&mut self, is_conclusive: bool, port: usize, class: Class, expected: &str, measured: &str) {
        self.is_conclusive |= is_conclusive;
        let counters = self.device.counters().ok();
        let of_class = counters.map(|counters| counters.ports[port].classes[class.index()]).unwrap_or_default();
        let count = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| value.to_string());
        let storm = self.storm_period.filter(|period| *period > Span::ZERO);
        let storm = storm.map_or("none".to_owned(), |period| format!("{:.0} frames/s", 1.0 / period.as_secs_f64()));
        self.failures.push(format!(
            "port {}, class {}: expected {expected}, measured {measured}; PFC received {}, sent {}; speed {}; storm {storm}",
            self.facts.ports[port].name,
            class.number(),
            count(of_class.rx_pfc),
            count(of_class.tx_pfc),
            self.tester.rate(port),
        ));
    }

    /// Records an expectation that was not met unless `holds`.
    pub fn expect(&mut self, holds: bool, port: usize, class: Class, expected: &str, measured: &str) {
        if !holds {
            self.fail(port, class, expected, measured);
        }
    }

    /// Returns the second sender.
    ///
    /// # Errors
    /// If there is none.
    pub fn u(&self) -> Result<usize, TestFailure> {
        self.second
            .ok_or_else(|| TestFailure::impossible("it takes three ports of one speed in one ASIC that trust DSCP"))
    }

    /// Returns the first lossless class.
    ///
    /// # Errors
    /// If there is none.
    pub fn lossless(&self) -> Result<Class, TestFailure> {
        self.facts.lossless().first().ok_or_else(|| TestFailure::impossible("the switch has no lossless class"))
    }

    /// Returns the first two lossless classes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn two_lossless(&self) -> Result<[Class; 2], TestFailure> {
        match &self.facts.lossless().iter().collect::<Vec<_>>()[..] {
            [first, second, ..] => Ok([*first, *second]),
            _ => Err(TestFailure::impossible("the switch has fewer than two lossless classes")),
        }
    }

    /// Returns the lossy classes that frames received on a port can have.
    pub fn lossy(&self, port: usize) -> Vec<Class> {
        let lossless = self.facts.lossless();
        self.classes(port).into_iter().filter(|class| !lossless.contains(*class)).collect()
    }

    /// Returns the first lossy class of a port.
    ///
    /// # Errors
    /// If there is none.
    pub fn one_lossy(&self, port: usize) -> Result<Class, TestFailure> {
        self.lossy(port).first().copied().ok_or_else(|| TestFailure::impossible("no codepoint leads to a lossy class"))
    }

    /// Returns the classes that frames received on a port can have, with a priority group and a queue of one number.
    pub fn classes(&self, port: usize) -> Vec<Class> {
        Class::ALL.into_iter().filter(|class| self.marking(port, *class).is_ok()).collect()
    }

    /// Returns a codepoint that leads from a port to a class.
    ///
    /// # Errors
    /// If there is none.
    pub fn marking(&self, port: usize, class: Class) -> Result<Marking, TestFailure> {
        let facts = &self.facts.ports[port];
        let is_class = |map: &crate::QueueMap| map.queue == class.number() && map.group == class.number();
        let of = |maps: &Option<Vec<crate::QueueMap>>| maps.as_ref()?.iter().position(is_class).map(|code| code as u8);
        of(&facts.dscp).map(Marking::Dscp).or_else(|| of(&facts.pcp).map(Marking::Pcp)).ok_or_else(|| {
            TestFailure::impossible(format!("no codepoint leads from port {} to class {}", facts.name, class.number()))
        })
    }

    /// Returns the facts of the buffer.
    ///
    /// # Errors
    /// If they are unknown.
    pub fn buffer(&self) -> Result<BufferFacts, TestFailure> {
        self.facts.buffer.clone().ok_or_else(|| TestFailure::impossible("sizes of the buffer are unknown"))
    }

    /// Returns the facts of the watchdog.
    ///
    /// # Errors
    /// If there is none.
    pub fn watchdog(&self) -> Result<WatchdogFacts, TestFailure> {
        self.facts
            .watchdog
            .ok_or_else(|| TestFailure::impossible("the switch has no PFC watchdog, or its times are unknown"))
    }

    /// Returns the longest pause of a port: 65,535 quanta.
    pub fn pause(&self, port: usize) -> Span {
        self.quanta(port, QUANTA_MAX)
    }

    /// Returns the length of a pause.
    pub fn quanta(&self, port: usize, quanta: u16) -> Span {
        self.tester.rate(port).time_for(Bytes::new(64 * u64::from(quanta)))
    }

    /// Returns the time of a frame of this length with FCS on a port's wire.
    pub fn frame_time(&self, port: usize, length: u32) -> Span {
        self.tester.rate(port).time_for(Bytes::new(wire_bytes(length)))
    }

    /// Rate of a flow of one class where a test does not say otherwise: an eighth of a port's.
    pub fn class_rate(&self, port: usize) -> BitRate {
        BitRate::bps(self.tester.rate(port).as_bps() / 8)
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// If a port failed.
    pub fn run(&mut self, span: Span) -> Result<(), TestFailure> {
        self.tester.run_for(span)
    }

    /// Lets frames in flight arrive: a sixteenth of the longest pause, and the device's settling time.
    ///
    /// # Errors
    /// If a port failed.
    pub fn settle(&mut self) -> Result<(), TestFailure> {
        self.run(self.pause(self.r).divided_by(16) + self.device.settling_time())
    }

    /// Time in which R's port drains this many frames, after the first's way through the device, with as much again to spare.
    pub(crate) fn drain_time(&self, frames: u64) -> Span {
        self.frame_time(self.r, LENGTH) * (2 * frames) + self.pause(self.r).divided_by(16) + self.device.settling_time()
    }

    /// Lets pauses end and a full buffer drain by the slowest port.
    ///
    /// # Errors
    /// If a port failed.
    pub fn drain(&mut self) -> Result<(), TestFailure> {
        let slowest = (0..self.tester.ports()).min_by_key(|port| self.tester.rate(*port)).unwrap_or(0);
        let pool = self.shared_pool();
        let drained = self.tester.rate(slowest).time_for(Bytes::new(pool + pool / 4));
        self.run(self.pause(slowest) + drained + self.device.settling_time())
    }

    /// Starts a flow of a class until it is stopped, in frames of this length.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn flow(
        &mut self,
        from: usize,
        to: usize,
        class: Class,
        rate: BitRate,
        lengths: Lengths,
    ) -> Result<TestFlow, TestFailure> {
        self.flow_of(from, to, class, rate, lengths, Amount::UntilStopped)
    }

    /// Starts a flow of a class.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn flow_of(
        &mut self,
        from: usize,
        to: usize,
        class: Class,
        rate: BitRate,
        lengths: Lengths,
        amount: Amount,
    ) -> Result<TestFlow, TestFailure> {
        let marking = self.marking(from, class)?;
        let id = self.tester.start(&TestStream { from, to, marking, class, ect: false, lengths, rate, amount })?;
        Ok(TestFlow { id, to, class, rate })
    }

    /// Starts a flow of each class of a port, each at an eighth of the slower port's rate.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn flows(&mut self, from: usize, to: usize, lengths: Lengths) -> Result<Vec<TestFlow>, TestFailure> {
        let rate = self.class_rate(from).min(self.class_rate(to));
        self.classes(from).into_iter().map(|class| self.flow(from, to, class, rate, lengths)).collect()
    }

    /// Stops flows.
    ///
    /// # Errors
    /// If a port failed.
    pub fn stop(&mut self, flows: &[TestFlow]) -> Result<(), TestFailure> {
        flows.iter().try_for_each(|flow| self.tester.stop(flow.id))
    }

    /// Sends this many frames of a class at line rate and lets them arrive.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn fill(
        &mut self,
        from: usize,
        to: usize,
        class: Class,
        length: u32,
        frames: u64,
    ) -> Result<TestFlow, TestFailure> {
        let rate = self.tester.rate(from);
        let flow = self.flow_of(from, to, class, rate, Lengths::Fixed(length), Amount::Frames(frames))?;
        let time = rate.time_for(Bytes::new(frames * wire_bytes(length)));
        self.run(time)?;
        self.settle()?;
        Ok(flow)
    }

    /// Starts a storm: PFC frames of 65,535 quanta, sent twice in that time.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn storm(&mut self, port: usize, classes: ClassSet) -> Result<StreamId, TestFailure> {
        let period = self.pause(port).divided_by(2);
        self.storm_by(port, classes, period)
    }

    /// Starts a storm of this period, and lets it begin to act.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn storm_by(&mut self, port: usize, classes: ClassSet, period: Span) -> Result<StreamId, TestFailure> {
        self.storm_period = Some(period);
        let id = self.control(port, self.pfc(port, classes, QUANTA_MAX), Some(period))?;
        self.settle()?;
        Ok(id)
    }

    /// Ends a storm: classes resume.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn end_storm(&mut self, port: usize, classes: ClassSet, storm: StreamId) -> Result<(), TestFailure> {
        self.tester.stop(storm)?;
        self.control(port, self.pfc(port, classes, 0), None)?;
        Ok(())
    }

    /// Ends R's storm on the class of a flow that fills the buffer, and waits until T is resumed. Returns the number of its `frames` that
    /// are held then; if T is not resumed, those in the end.
    ///
    /// # Errors
    /// If the tester cannot.
    pub(crate) fn drain_to_resume(
        &mut self,
        storm: StreamId,
        flow: TestFlow,
        frames: u64,
    ) -> Result<ResumePoint, TestFailure> {
        let (t, r) = (self.t, self.r);
        self.tester.clear_stats()?;
        self.end_storm(r, flow.class.alone(), storm)?;
        let step = self.frame_time(r, LENGTH);
        let end = self.tester.now() + self.drain_time(frames);
        let mut point = ResumePoint { held: frames, is_resumed: false };
        while self.tester.now() < end && !point.is_resumed {
            self.run(step)?;
            point.held = frames - self.stats(flow)?.received.min(frames);
            let control = self.received_control(t)?;
            point.is_resumed = control.pfc[flow.class.index()] > control.xoff[flow.class.index()];
        }
        Ok(point)
    }

    /// Sends a control frame.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn control(&mut self, from: usize, frame: Vec<u8>, period: Option<Span>) -> Result<StreamId, TestFailure> {
        self.tester.send_control(&ControlStream { from, frame, period })
    }

    /// Returns a PFC frame of a port's station.
    pub fn pfc(&self, port: usize, classes: ClassSet, quanta: u16) -> Vec<u8> {
        pfc_from(self.tester.station(port), classes, quanta)
    }

    /// Returns a flow's statistics.
    ///
    /// # Errors
    /// If a port failed.
    pub fn stats(&mut self, flow: TestFlow) -> Result<StreamStats, TestFailure> {
        self.tester.stats(flow.id)
    }

    /// Returns the control frames that a tester's port received.
    ///
    /// # Errors
    /// If a port failed.
    pub fn received_control(&mut self, port: usize) -> Result<ControlStats, TestFailure> {
        self.tester.control_stats(port)
    }

    /// Returns the counters of the device.
    ///
    /// # Errors
    /// If it has none.
    pub fn counters(&mut self) -> Result<DeviceCounters, TestFailure> {
        self.device.counters()
    }

    /// Starts all statistics and counters anew.
    ///
    /// # Errors
    /// If the tester or the device cannot.
    pub fn clear(&mut self) -> Result<(), TestFailure> {
        self.tester.clear_stats()?;
        self.device.clear()
    }

    /// Makes a port's peer as slow to stop as the device's headroom allows; returns that delay.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn slow_peer(&mut self, port: usize) -> Result<Span, TestFailure> {
        let delay = Span::from_nanos(self.facts.ports[port].peer_delay_ns.unwrap_or(0));
        self.tester.set_pfc_reaction(port, PfcReaction::Obey(delay))?;
        Ok(delay)
    }

    /// Checks that all frames of a flow were received, in order.
    ///
    /// # Errors
    /// If a port failed.
    pub fn expect_no_loss(&mut self, flow: TestFlow) -> Result<(), TestFailure> {
        let stats = self.stats(flow)?;
        let measured = format!("{} of {} received", stats.received, stats.sent);
        if stats.received != stats.sent || stats.sent == 0 {
            let time = frame_interval(flow, &stats) * stats.sent.abs_diff(stats.received);
            let is_conclusive = self.is_beyond_losses(time);
            self.fail_with(is_conclusive, flow.to, flow.class, "no frame lost", &measured);
        }
        let measured = format!("{} out of order", stats.out_of_order);
        self.expect(stats.out_of_order == 0, flow.to, flow.class, "frames in order", &measured);
        Ok(())
    }

    /// Checks that a flow arrived at its rate within the tolerance. Returns the deviation in percent.
    ///
    /// # Errors
    /// If a port failed.
    pub fn expect_rate(&mut self, flow: TestFlow) -> Result<f64, TestFailure> {
        let stats = self.stats(flow)?;
        let measured = rate_of(&stats);
        let percent = (measured / flow.rate.as_bps() as f64 - 1.0) * 100.0;
        let expected = format!("{} within {RATE_PERCENT} %", flow.rate);
        let span = stats.last.zip(stats.first).map_or(self.pause(flow.to), |(last, first)| last.since(first));
        if percent.abs() > RATE_PERCENT {
            let error = (percent.abs() - RATE_PERCENT) / 100.0 * span.as_secs_f64();
            let is_conclusive = self.is_beyond_losses(Span::from_nanos((error * 1e9) as u64));
            self.fail_with(is_conclusive, flow.to, flow.class, &expected, &text_of_rate(measured));
        }
        Ok(percent)
    }

    /// Checks that flows lost nothing and arrived at their rates, and records the largest deviation.
    ///
    /// # Errors
    /// If a port failed.
    pub fn expect_delivery(&mut self, flows: &[TestFlow]) -> Result<(), TestFailure> {
        let (mut worst, mut frames): (f64, u64) = (0.0, 0);
        for flow in flows {
            self.expect_no_loss(*flow)?;
            worst = worst.max(self.expect_rate(*flow)?.abs());
            frames += self.stats(*flow)?.received;
        }
        self.record(format!("{frames} frames received, rates within {worst:.2} %"));
        Ok(())
    }

    /// Checks that a flow received exactly nothing although it was sent.
    ///
    /// # Errors
    /// If a port failed.
    pub fn expect_nothing(&mut self, flow: TestFlow) -> Result<(), TestFailure> {
        let stats = self.stats(flow)?;
        let measured = format!("{} frames of {} sent", stats.received, stats.sent);
        self.expect_time(
            frame_interval(flow, &stats) * stats.received,
            flow.to,
            flow.class,
            "no frame while paused",
            &measured,
        );
        self.expect(stats.sent > 0, flow.to, flow.class, "frames to pause", &measured);
        Ok(())
    }

    /// Checks that the device counted PFC of exactly these classes at a port.
    ///
    /// # Errors
    /// If the device has no such counter.
    pub fn expect_rx_pfc(&mut self, port: usize, classes: ClassSet) -> Result<(), TestFailure> {
        let counters = self.counters()?;
        for class in Class::ALL {
            let count = needed(counters.ports[port].classes[class.index()].rx_pfc, "RxPfc")?;
            let is_expected = (count > 0) == classes.contains(class);
            let expected = if classes.contains(class) { "RxPfc above 0" } else { "RxPfc 0" };
            self.expect(is_expected, port, class, expected, &count.to_string());
        }
        Ok(())
    }

    /// Time in which a port at line rate fills the shared pool four times.
    pub fn fill_time(&self, port: usize) -> Span {
        self.tester.rate(port).time_for(Bytes::new(4 * self.shared_pool()))
    }

    /// Bytes of the shared pool; many if they are unknown.
    fn shared_pool(&self) -> u64 {
        self.facts.buffer.as_ref().and_then(|buffer| buffer.shared_pool).unwrap_or(16_000_000)
    }

    /// Waits until a port's sender at line rate is paused in a class anew; returns whether it was in the time that fills all buffers.
    ///
    /// # Errors
    /// If a port failed.
    pub fn wait_for_pause(&mut self, port: usize, class: Class) -> Result<bool, TestFailure> {
        let before = self.received_control(port)?.xoff[class.index()];
        let limit = self.fill_time(port);
        let end = self.tester.now() + limit;
        while self.tester.now() < end {
            self.run(limit.divided_by(128))?;
            if self.received_control(port)?.xoff[class.index()] > before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns all drops that the device counted, in all groups and queues.
    ///
    /// # Errors
    /// If the device has no such counters.
    pub fn drops(&mut self) -> Result<u64, TestFailure> {
        let counters = self.counters()?;
        let classes = counters.ports.iter().flat_map(|port| port.classes);
        let drops = classes.map(|class| match (class.group_drops, class.queue_drops) {
            (None, None) => None,
            (groups, queues) => Some(groups.unwrap_or(0) + queues.unwrap_or(0)),
        });
        // A switch may count drops of a queue at the port that the frame came by.
        let drops = drops.chain(counters.ports.iter().map(|port| Some(port.other_drops.unwrap_or(0))));
        needed(drops.sum(), "drops")
    }

    /// Lets each port's station speak once, so that a switch that learns knows it.
    ///
    /// # Errors
    /// If the tester cannot.
    pub fn introduce(&mut self) -> Result<(), TestFailure> {
        let ports = self.tester.ports();
        for from in 0..ports {
            if let Some(class) = self.classes(from).first().copied() {
                let (to, rate) = ((from + 1) % ports, self.class_rate(from));
                self.flow_of(from, to, class, rate, Lengths::Fixed(LENGTH), Amount::Frames(1))?;
            }
        }
        self.settle()
    }

    /// Returns the device to where it was before a test.
    ///
    /// # Errors
    /// If the tester or the device cannot.
    pub fn restore(&mut self) -> Result<(), TestFailure> {
        self.storm_period = None;
        self.tester.reset()?;
        self.device.restore()?;
        self.drain()?;
        self.clear()
    }
}

/// Time between two frames of a flow.
fn frame_interval(flow: TestFlow, stats: &StreamStats) -> Span {
    let bytes = stats.received_wire_bytes.checked_div(stats.received).unwrap_or(wire_bytes(LENGTH));
    flow.rate.time_for(Bytes::new(bytes))
}

const TWO_PORTS: &str = "it takes two ports of one speed in one ASIC that trust DSCP";

/// Returns a counter, or that the device does not have it.
///
/// # Errors
/// If the counter is absent.
pub fn needed<T>(counter: Option<T>, name: &str) -> Result<T, TestFailure> {
    counter.ok_or_else(|| TestFailure::impossible(format!("the switch has no counter of {name}")))
}

/// Returns a fact, or that it is unknown.
///
/// # Errors
/// If it is unknown.
pub fn known<T>(fact: Option<T>, name: &str) -> Result<T, TestFailure> {
    fact.ok_or_else(|| TestFailure::impossible(format!("{name} is unknown")))
}

/// Bytes on the wire of a frame of this length with FCS.
pub fn wire_bytes(length: u32) -> u64 {
    u64::from(length) - FCS_BYTES + LINK_OVERHEAD.get()
}

/// PFC frame from this station.
pub fn pfc_from(source: MacAddr, classes: ClassSet, quanta: u16) -> Vec<u8> {
    ControlFrame::Pfc(PfcFrame { enabled: classes, times: [quanta; CLASSES] }).encode(source).to_vec()
}

/// Rate on the wire between the first and the last arrival, in b/s.
pub fn rate_of(stats: &StreamStats) -> f64 {
    let (Some(first), Some(last)) = (stats.first, stats.last) else { return 0.0 };
    let time = last.since(first);
    if stats.received < 2 || time == Span::ZERO {
        return 0.0;
    }
    let bytes = stats.received_wire_bytes as f64 * (stats.received - 1) as f64 / stats.received as f64;
    bytes * 8.0 / time.as_secs_f64()
}

/// Rate in b/s, as text.
pub fn text_of_rate(bps: f64) -> String {
    format!("{:.4} Gb/s", bps / 1e9)
}

/// Time, as text.
pub fn text_of(span: Span) -> String {
    format!("{:.3} us", span.as_secs_f64() * 1e6)
}
