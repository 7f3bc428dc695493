//! Congestion control that is a Python class.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_nic::host::TelemetryMode;
use weir_nic::host::congestion::{
    self, AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, HopTelemetry,
    RequiredFeedback,
};
use weir_nic::parameters::{Network, Parameters};
use weir_reader::{Gauge, Keys, Plugin};
use weir_units::{BitRate, Bytes, Span, Time};

use crate::Error;
use crate::kinds::{ExceptionHandler, KeyValues, KindSpec, PythonKind, PythonMethod, PythonMethods, unsigned};

/// Kind of congestion control that is a class.
#[derive(Debug)]
struct PythonCongestionKind {
    kind: &'static PythonKind,
    feedback: RequiredFeedback,
}

/// Values of a flow's parameters.
#[derive(Debug)]
struct PythonCongestionConfig {
    kind: &'static PythonKind,
    feedback: RequiredFeedback,
    network: Network,
    values: KeyValues,
}

/// Instance of the class: the state of one flow.
#[derive(Debug)]
struct PythonController {
    kind: &'static PythonKind,
    on_sent: Option<PythonMethod>,
    on_cnp: Option<PythonMethod>,
    on_ack: Option<PythonMethod>,
    rate: PythonMethod,
    window: Option<PythonMethod>,
    gauges: Option<PythonMethod>,
}

/// Declaration of a congestion control's feedback: least interval of notifications in picoseconds, whether marks are echoed, telemetry,
/// and whether each packet is acknowledged.
type FeedbackSpec = (Option<u64>, bool, String, bool);

/// Adds a class to the congestion controls of this process.
#[pyfunction]
pub(crate) fn add_congestion_control(spec: KindSpec, feedback: FeedbackSpec, on_error: Py<PyAny>) -> PyResult<()> {
    let kind = PythonKind::leak(spec, ExceptionHandler::End(on_error))?;
    if let Some(key) = kind.keys.iter().find(|key| key.default().is_none()) {
        let message = format!("`{}` of \"{}\" has no default; give it one in the constructor", key.name(), kind.name);
        return Err(Error::new_err(message));
    }
    let (cnp_interval, echoes_ecn, telemetry, acks_every_packet) = feedback;
    let telemetry = match telemetry.as_str() {
        "none" => TelemetryMode::None,
        "time" => TelemetryMode::Time,
        "hops" => TelemetryMode::Hops,
        other => return Err(PyValueError::new_err(format!("\"{other}\" is none of \"none\", \"time\", \"hops\""))),
    };
    let cnp_interval = cnp_interval.map(Span::from_picos);
    let feedback = RequiredFeedback { cnp_interval, echoes_ecn, telemetry, digest: None, acks_every_packet };
    let kind: &'static PythonCongestionKind = Box::leak(Box::new(PythonCongestionKind { kind, feedback }));
    weir_experiments::plugin::check_congestion_control(kind)
        .and_then(|()| congestion::add(kind).map_err(|error| error.to_string()))
        .map_err(Error::new_err)
}

impl Plugin for PythonCongestionKind {
    fn id(&self) -> &'static str {
        self.kind.name
    }

    fn keys(&self) -> Keys {
        self.kind.keys
    }

    fn gauges(&self) -> &'static [Gauge] {
        self.kind.gauges
    }
}

impl CongestionControlKind for PythonCongestionKind {
    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(PythonCongestionConfig {
            kind: self.kind,
            feedback: self.feedback,
            network: parameters.network(),
            values: self.kind.values_of_parameters(parameters),
        })
    }
}

impl CongestionControlConfig for PythonCongestionConfig {
    fn feedback(&self) -> RequiredFeedback {
        self.feedback
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        let kind = self.kind;
        let created = kind.create(&self.values, |around| {
            around.set_item("line", line.as_bps())?;
            around.set_item("base_rtt", self.network.base_rtt.as_picos())
        });
        match created.and_then(|methods| PythonController::new(kind, &methods)) {
            Ok(controller) => Box::new(controller),
            Err(error) => {
                Python::attach(|py| kind.fail(py, error));
                unreachable!("an exception ends the process")
            }
        }
    }
}

impl PythonController {
    fn new(kind: &'static PythonKind, methods: &PythonMethods) -> PyResult<PythonController> {
        let find = |name| methods.find(kind, name);
        let rate = find("rate").ok_or_else(|| Error::new_err("a congestion control needs the method rate"))?;
        Ok(PythonController {
            kind,
            on_sent: find("on_sent"),
            on_cnp: find("on_cnp"),
            on_ack: find("on_ack"),
            rate,
            window: find("window"),
            gauges: find("gauge_values"),
        })
    }
}

impl CongestionController for PythonController {
    fn on_sent(&mut self, now: Time, wire: Bytes) {
        if let Some(method) = &self.on_sent {
            method.call((now.as_picos(), wire.get()), (), |_| Ok(()));
        }
    }

    fn on_cnp(&mut self, now: Time) {
        if let Some(method) = &self.on_cnp {
            method.call((now.as_picos(),), (), |_| Ok(()));
        }
    }

    fn on_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        if let Some(method) = &self.on_ack {
            let ack = PythonAckSignal {
                acked: ack.acked,
                sent: ack.sent,
                rtt: ack.rtt.as_picos(),
                is_marked: ack.is_marked,
                hops: ack.hops.to_vec(),
            };
            method.call((now.as_picos(), ack), (), |_| Ok(()));
        }
    }

    fn rate(&self) -> BitRate {
        BitRate::bps(self.rate.unsigned((), 1))
    }

    fn window(&self) -> Option<Bytes> {
        let window = |value: &Bound<'_, PyAny>| match value.is_none() {
            true => Ok(None),
            false => unsigned(value, "window", 0).map(|bytes| Some(Bytes::new(bytes))),
        };
        self.window.as_ref().and_then(|method| method.call((), None, window))
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        let Some(method) = &self.gauges else { return };
        let unknown = vec![f64::NAN; self.kind.gauges.len()];
        method.gauge_values((), unknown, |value| value.extract()).into_iter().for_each(show);
    }
}

/// Feedback of an acknowledgement.
#[pyclass(name = "AckSignal", module = "weir", frozen)]
pub(crate) struct PythonAckSignal {
    /// Payload bytes acknowledged since the flow began.
    #[pyo3(get)]
    acked: u64,
    /// Payload bytes sent since the flow began, without those to be retransmitted.
    #[pyo3(get)]
    sent: u64,
    /// Round-trip time since the acknowledged frame was sent, in picoseconds.
    #[pyo3(get)]
    rtt: u64,
    /// True if a switch marked the acknowledged frame CE.
    #[pyo3(get)]
    is_marked: bool,
    hops: Vec<HopTelemetry>,
}

#[pymethods]
impl PythonAckSignal {
    /// Telemetry of each hop in path order.
    #[getter]
    fn hops(&self) -> Vec<PythonHopTelemetry> {
        self.hops.iter().map(|hop| PythonHopTelemetry(*hop)).collect()
    }
}

/// Telemetry that a switch's port stamps on a departing frame.
#[pyclass(name = "HopTelemetry", module = "weir", frozen)]
pub(crate) struct PythonHopTelemetry(HopTelemetry);

#[pymethods]
impl PythonHopTelemetry {
    /// Instant of the stamp in picoseconds.
    #[getter(at)]
    fn instant(&self) -> u64 {
        self.0.at.as_picos()
    }

    /// Bytes sent by the port.
    #[getter]
    fn tx_bytes(&self) -> u64 {
        self.0.tx_bytes
    }

    /// Length of the queue in bytes.
    #[getter]
    fn queue(&self) -> u64 {
        self.0.queue.get()
    }

    /// Rate of the port in bits a second.
    #[getter]
    fn rate(&self) -> u64 {
        self.0.rate.as_bps()
    }
}
