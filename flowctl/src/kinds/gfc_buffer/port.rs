//! Both sides of a port under buffer-based GFC: toward a peer that speaks it, and toward one that only knows PFC.

use weir_units::{BitRate, Bytes, CLASSES, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::gfc::{ArrivalCounters, ClassRates, Pulse, StageTable, stage};
use crate::kinds::pause_receiver::PauseReceiver;
use crate::kinds::pfc::Pfc;
use crate::pfc::PauseTimers;
use crate::{
    BufferState, FlowControl, FlowControlInitiator, FlowControlReceiver, MessageGenerator, MessageKind,
    PortFlowControl, PortParameters, Quantum, ReceiveAccounting,
};

/// Buffer-based GFC at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GfcBuffer {
    /// Table of stages; both ends of the link must have the same.
    pub stages: StageTable,
    /// Time without change after which the stages are repeated.
    pub refresh: Span,
    /// Lifetime of a stage that is not repeated: the class has the line rate then.
    pub ageing: Span,
}

impl FlowControl for GfcBuffer {
    fn message_kind(&self) -> MessageKind {
        MessageKind::Stages
    }

    fn uses_queue_length(&self) -> bool {
        true
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        let generator = stage::StageGenerator::new(self.stages.clone(), port.classes, self.refresh);
        MessageGenerator::from_initiator(StageInitiator { port, generator })
    }

    fn receiver(&self, port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(stage::StageRateAdjuster::new(self.stages.clone(), self.ageing, Quantum::for_rate(port.rate)))
    }

    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        first_stages(&self.stages)
    }
}

fn first_stages(stages: &StageTable) -> Vec<(String, Bytes)> {
    (1..=2).filter_map(|k| Some((format!("B_{k}"), stages.start(k)?))).collect()
}

#[derive(Debug)]
struct StageInitiator {
    port: PortParameters,
    generator: stage::StageGenerator,
}

impl FlowControlInitiator for StageInitiator {
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        self.generator.poll(now, &buffer.queues(self.port.classes)).map(ControlFrame::Pfc)
    }

    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, _buffer: &BufferState<'_>) {
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

impl FlowControlReceiver for stage::StageRateAdjuster {
    fn handle(&self, now: Time, frame: &ControlFrame, pause_timers: &PauseTimers) -> bool {
        let ControlFrame::Pfc(frame) = frame else { return false };
        self.handle_frame(now, frame);
        self.obey_stops(now, frame, pause_timers);
        true
    }

    fn reset(&self, now: Time) {
        stage::StageRateAdjuster::reset(self, now);
    }

    fn rates(&self) -> Option<&ClassRates> {
        Some(stage::StageRateAdjuster::rates(self))
    }

    fn invalid_messages(&self) -> u64 {
        self.stages_above_last() + self.pauses()
    }

    fn mismatched_messages(&self) -> u64 {
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
    pub peer_pfc: Pfc,
}

impl FlowControl for GfcPulse {
    fn message_kind(&self) -> MessageKind {
        MessageKind::Pulses
    }

    fn uses_queue_length(&self) -> bool {
        true
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        let pulse = Pulse::new(port.rate, port.classes, self.period);
        MessageGenerator::from_initiator(PulseInitiator { port, pulse, stages: self.stages.clone() })
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(PauseReceiver::new(MessageKind::Pfc))
    }

    fn receive_accounting(&self, link_overhead: Bytes) -> ReceiveAccounting {
        ReceiveAccounting::Bytes(ArrivalCounters::new(link_overhead))
    }

    fn nic_variant(&self) -> Option<PortFlowControl> {
        Some(PortFlowControl::new(self.peer_pfc))
    }

    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        first_stages(&self.stages)
    }
}

#[derive(Debug)]
struct PulseInitiator {
    port: PortParameters,
    pulse: Pulse,
    stages: StageTable,
}

impl PulseInitiator {
    fn rates(&self, buffer: &BufferState<'_>) -> [BitRate; CLASSES] {
        let mut rates = [self.stages.rate(0); CLASSES];
        for class in self.port.classes {
            rates[class.index()] = self.stages.rate(self.stages.stage_of((buffer.occupancy)(class)));
        }
        rates
    }
}

impl FlowControlInitiator for PulseInitiator {
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        if now < self.pulse.next_wakeup() {
            return None;
        }
        self.pulse.poll(now, &self.rates(buffer)).map(ControlFrame::Pfc)
    }

    fn handle_sent(&mut self, now: Time, _frame: &ControlFrame, buffer: &BufferState<'_>) {
        let rates = self.rates(buffer);
        let arrived = if let ReceiveAccounting::Bytes(arrivals) = buffer.arrived { Some(arrivals) } else { None };
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
