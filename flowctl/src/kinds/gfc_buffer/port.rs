//! Both sides of a port under buffer-based GFC: toward a peer that speaks it, and toward one that only knows PFC.

use weir_units::archive::{Archive, SharedState, State};
use weir_units::{BitRate, Bytes, CLASSES, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::gfc::{Arrivals, Pulse, Rates, StageTable, stage};
use crate::kinds::pfc::Pfc;
use crate::pfc::Gate;
use crate::pfc::ObeysPauses;
use crate::{Arrived, Demand, Downstream, Mechanism, MessageGenerator, Protocol, Quantum, Side, Tells, Upstream};

/// Buffer-based GFC at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GfcBuffer {
    /// The table of stages; both ends of the link must have the same.
    pub stages: StageTable,
    /// Time without change after which the stages are repeated.
    pub refresh: Span,
    /// Lifetime of a stage that is not repeated: the class has the line rate then.
    pub ageing: Span,
}

impl Protocol for GfcBuffer {
    fn tells(&self) -> Tells {
        Tells::Stages
    }

    fn goes_by_length(&self) -> bool {
        true
    }

    fn downstream(&self, port: Side) -> MessageGenerator {
        let generator = stage::Generator::new(self.stages.clone(), port.classes, self.refresh);
        MessageGenerator::of(Stages { port, generator })
    }

    fn upstream(&self, port: Side) -> Box<dyn Upstream> {
        Box::new(stage::Adjuster::new(self.stages.clone(), self.ageing, Quantum::at(port.rate)))
    }

    fn marks(&self) -> Vec<(String, Bytes)> {
        first_stages(&self.stages)
    }
}

fn first_stages(stages: &StageTable) -> Vec<(String, Bytes)> {
    (1..=2).filter_map(|k| Some((format!("B_{k}"), stages.start(k)?))).collect()
}

#[derive(Debug, State)]
struct Stages {
    #[state(same)]
    port: Side,
    generator: stage::Generator,
}

impl Downstream for Stages {
    fn checkpoint(&mut self, archive: &mut Archive) {
        self.state(archive);
    }

    fn poll(&self, now: Time, demand: &Demand<'_>) -> Option<ControlFrame> {
        self.generator.poll(now, &demand.queues(self.port.classes)).map(ControlFrame::Pfc)
    }

    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, _demand: &Demand<'_>) {
        if let ControlFrame::Pfc(frame) = frame {
            self.generator.handle_sent(now, frame);
        }
    }

    fn restart(&mut self, at: Time) {
        self.generator.restart(at);
    }

    fn next_wakeup(&self, _now: Time) -> Time {
        self.generator.next_wakeup()
    }

    fn slows(&self, frame: &ControlFrame) -> bool {
        let ControlFrame::Pfc(PfcFrame { enabled, times }) = frame else { return false };
        enabled.iter().any(|class| times[class.index()] > self.generator.advertised(class))
    }
}

impl Upstream for stage::Adjuster {
    fn checkpoint(&self, archive: &mut Archive) {
        self.shared_state(archive);
    }

    fn handle(&self, now: Time, frame: &ControlFrame, gate: &Gate) -> bool {
        let ControlFrame::Pfc(frame) = frame else { return false };
        self.handle_frame(now, frame);
        self.obey_stops(now, frame, gate);
        true
    }

    fn forget(&self, now: Time) {
        stage::Adjuster::forget(self, now);
    }

    fn rates(&self) -> Option<&Rates> {
        Some(stage::Adjuster::rates(self))
    }

    fn odd_messages(&self) -> u64 {
        self.stages_above_last() + self.pauses()
    }

    fn foreign_messages(&self) -> u64 {
        self.pauses()
    }
}

/// Buffer-based GFC toward a peer that only knows PFC; the port obeys the peer's PFC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GfcPulse {
    /// Stages, which map queue length to rate.
    pub stages: StageTable,
    /// P, the period of the pauses.
    pub period: Span,
    /// PFC parameters of the peer.
    pub of_a_nic: Pfc,
}

impl Protocol for GfcPulse {
    fn tells(&self) -> Tells {
        Tells::Pulses
    }

    fn goes_by_length(&self) -> bool {
        true
    }

    fn downstream(&self, port: Side) -> MessageGenerator {
        let pulse = Pulse::new(port.rate, port.classes, self.period);
        MessageGenerator::of(Pulses { port, pulse, stages: self.stages.clone() })
    }

    fn upstream(&self, _port: Side) -> Box<dyn Upstream> {
        Box::new(ObeysPauses::of(Tells::Pfc))
    }

    fn arrived(&self, link_overhead: Bytes) -> Arrived {
        Arrived::Bytes(Arrivals::new(link_overhead))
    }

    fn of_a_nic(&self) -> Option<Mechanism> {
        Some(Mechanism::new(self.of_a_nic))
    }

    fn marks(&self) -> Vec<(String, Bytes)> {
        first_stages(&self.stages)
    }
}

#[derive(Debug, State)]
struct Pulses {
    #[state(same)]
    port: Side,
    pulse: Pulse,
    #[state(same)]
    stages: StageTable,
}

impl Pulses {
    fn rates(&self, demand: &Demand<'_>) -> [BitRate; CLASSES] {
        let mut rates = [self.stages.rate(0); CLASSES];
        for class in self.port.classes {
            rates[class.index()] = self.stages.rate(self.stages.stage_of((demand.held)(class)));
        }
        rates
    }
}

impl Downstream for Pulses {
    fn checkpoint(&mut self, archive: &mut Archive) {
        self.state(archive);
    }

    fn poll(&self, now: Time, demand: &Demand<'_>) -> Option<ControlFrame> {
        if now < self.pulse.next_wakeup() {
            return None;
        }
        self.pulse.poll(now, &self.rates(demand)).map(ControlFrame::Pfc)
    }

    fn handle_sent(&mut self, now: Time, _frame: &ControlFrame, demand: &Demand<'_>) {
        let rates = self.rates(demand);
        let arrived = if let Arrived::Bytes(arrivals) = demand.arrived { Some(arrivals) } else { None };
        self.pulse.handle_sent(now, &rates, arrived);
    }

    fn restart(&mut self, at: Time) {
        self.pulse.restart(at);
    }

    fn next_wakeup(&self, now: Time) -> Time {
        // A period that has ended and was not followed by another: the peer goes at line rate until a queue grows.
        if self.pulse.next_wakeup() <= now { Time::NEVER } else { self.pulse.next_wakeup() }
    }
}
