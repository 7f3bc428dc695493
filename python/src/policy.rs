//! Buffer policy that is a Python class.

use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_mmu::policy::{
    BUFFER_POLICIES, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, Gauges, LayoutRequirements,
    OverloadCase, PolicyError, PoolLevel, PortLevelFlowControl, PortRate, PortWriter, QueueView, SteadyState,
    Threshold,
};
use weir_reader::{Gauge, Keys, Plugin, Table};
use weir_units::{Alpha, BitRate, Bytes, PortId, QueueId};

use crate::Error;
use crate::kinds::{ExceptionHandler, KeyValues, KindSpec, PythonKind, PythonMethod, PythonMethods, unsigned};

/// Kind of buffer policy that is a class.
#[derive(Debug)]
pub(crate) struct PythonPolicyKind {
    pub kind: &'static PythonKind,
    own: OnceLock<&'static PythonPolicyKind>,
}

/// Values of the class's table.
#[derive(Debug)]
struct PythonPolicyConfig {
    kind: &'static PythonPolicyKind,
    values: KeyValues,
}

/// Instance of the class: the policy of one switch.
#[derive(Debug)]
struct PythonPolicy {
    kind: &'static PythonKind,
    threshold: PythonMethod,
    lossy_threshold: Option<PythonMethod>,
    on_arrival: Option<PythonMethod>,
    on_admit: Option<PythonMethod>,
    on_release: Option<PythonMethod>,
    port_threshold: Option<PythonMethod>,
    headroom: Option<PythonMethod>,
    set_rate: Option<PythonMethod>,
    gauges: Option<PythonMethod>,
    has_non_increasing_thresholds: bool,
    depends_on_time: bool,
    has_hysteresis: bool,
    port_level_flow_control: Option<u64>,
}

/// Adds a class to the buffer policies of this process.
#[pyfunction]
pub(crate) fn add_policy(spec: KindSpec, on_error: Py<PyAny>) -> PyResult<()> {
    let kind = PythonPolicyKind::leak(PythonKind::leak(spec, ExceptionHandler::End(on_error))?);
    weir_experiments::plugin::check_policy(kind)
        .and_then(|()| BUFFER_POLICIES.add(kind).map_err(|error| error.to_string()))
        .map_err(Error::new_err)
}

impl PythonPolicyKind {
    /// Creates a kind that lives as long as the process.
    pub(crate) fn leak(kind: &'static PythonKind) -> &'static PythonPolicyKind {
        let policy: &'static PythonPolicyKind = Box::leak(Box::new(PythonPolicyKind { kind, own: OnceLock::new() }));
        policy.own.get_or_init(|| policy)
    }
}

impl Plugin for PythonPolicyKind {
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

impl BufferPolicyKind for PythonPolicyKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        let kind = self.own.get().expect("a leaked kind");
        Arc::new(PythonPolicyConfig { kind, values: self.kind.values_of_table(table) })
    }
}

impl BufferPolicyConfig for PythonPolicyConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        self.kind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        let kind = self.kind.kind;
        let created = kind.create(&self.values, |around| describe_switch(around, context));
        let policy = created.and_then(|methods| PythonPolicy::new(kind, &methods));
        match policy {
            Ok(policy) => Ok(Box::new(policy)),
            Err(error) => {
                let message = error.to_string();
                Python::attach(|py| kind.fail(py, error));
                Err(PolicyError { key: "", message, help: String::new() })
            }
        }
    }
}

/// Sets the fields of `weir.BuildContext`.
fn describe_switch(around: &Bound<'_, PyDict>, context: &BuildContext<'_>) -> PyResult<()> {
    let rates = |rates: &[BitRate]| rates.iter().map(|rate| rate.as_bps()).collect::<Vec<_>>();
    let headroom: Vec<u64> = context.layout.ports().iter().map(|port| port.headroom_max().get()).collect();
    around.set_item("shared", context.layout.shared().get())?;
    around.set_item("headroom", headroom)?;
    around.set_item("rates", rates(context.rates))?;
    around.set_item("fill_rates", rates(context.fill_rates))?;
    around.set_item("hosts", context.hosts.to_vec())?;
    around.set_item("frame_max", context.frame_max.get())?;
    around.set_item("xon_offset", context.xon_offset.get())?;
    around.set_item("reaction", context.reaction.as_picos())
}

impl PythonPolicy {
    fn new(kind: &'static PythonKind, methods: &PythonMethods) -> PyResult<PythonPolicy> {
        let find = |name| methods.find(kind, name);
        let threshold = find("threshold").ok_or_else(|| Error::new_err("a policy needs the method threshold"))?;
        let observes = ["on_arrival", "on_admit", "on_release"].iter().any(|name| find(name).is_some());
        let port_level_flow_control = methods.ask(kind, "port_level_flow_control", None);
        Ok(PythonPolicy {
            kind,
            threshold,
            lossy_threshold: find("lossy_threshold"),
            on_arrival: find("on_arrival"),
            on_admit: find("on_admit"),
            on_release: find("on_release"),
            port_threshold: find("port_threshold"),
            headroom: find("headroom"),
            set_rate: find("set_rate"),
            gauges: find("gauge_values"),
            has_non_increasing_thresholds: methods.ask(kind, "has_non_increasing_thresholds", false),
            depends_on_time: methods.ask(kind, "depends_on_time", observes),
            has_hysteresis: methods.ask(kind, "has_hysteresis", true),
            port_level_flow_control,
        })
    }
}

impl BufferPolicy for PythonPolicy {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    #[inline]
    fn threshold(&self, queue: &QueueView) -> Threshold {
        self.threshold.call((PythonQueueView(*queue),), Threshold::new(0), |value| {
            match value.cast::<PythonThreshold>() {
                Ok(threshold) => Ok(threshold.get().0),
                Err(_) => unsigned(value, "threshold", 0).map(Threshold::new),
            }
        })
    }

    fn lossy_threshold(&self, queue: &QueueView, alpha: Alpha) -> u64 {
        match &self.lossy_threshold {
            Some(method) => method.unsigned((PythonQueueView(*queue), alpha.to_bits()), 0),
            None => alpha.scale(Bytes::new(queue.shared_pool.free())).get(),
        }
    }

    fn has_non_increasing_thresholds(&self) -> bool {
        self.has_non_increasing_thresholds
    }

    fn observes_packets(&self) -> bool {
        self.on_arrival.is_some() || self.on_admit.is_some() || self.on_release.is_some()
    }

    fn depends_on_time(&self) -> bool {
        self.depends_on_time
    }

    fn on_arrival(&self, _writer: &mut PortWriter, queue: &QueueView, bytes: u64) {
        if let Some(method) = &self.on_arrival {
            method.call((PythonQueueView(*queue), bytes), (), |_| Ok(()));
        }
    }

    fn on_admit(&self, _writer: &mut PortWriter, queue: &QueueView) {
        if let Some(method) = &self.on_admit {
            method.call((PythonQueueView(*queue),), (), |_| Ok(()));
        }
    }

    fn on_release(&self, ingress: QueueId, bytes: u64, queue: &QueueView) {
        if let Some(method) = &self.on_release {
            method.call((PythonQueueId(ingress), bytes, PythonQueueView(*queue)), (), |_| Ok(()));
        }
    }

    fn has_hysteresis(&self) -> bool {
        self.has_hysteresis
    }

    fn port_level_flow_control(&self) -> Option<PortLevelFlowControl> {
        self.port_level_flow_control.map(|xon_offset| PortLevelFlowControl { xon_offset })
    }

    fn port_threshold(&self, port: PortId, shared_pool: PoolLevel) -> u64 {
        match &self.port_threshold {
            Some(method) => method.unsigned((port.0, PythonPoolLevel(shared_pool)), 0),
            None => u64::MAX,
        }
    }

    fn adapts_headroom(&self) -> bool {
        self.headroom.is_some()
    }

    fn headroom(&self, queue: QueueId) -> Bytes {
        let bytes = |method: &PythonMethod| Bytes::new(method.unsigned((PythonQueueId(queue),), 0));
        self.headroom.as_ref().map_or(Bytes::ZERO, bytes)
    }

    fn set_rate(&self, port: PortId, rate: PortRate) -> bool {
        match &self.set_rate {
            Some(method) => {
                method.call((port.0, rate.line.as_bps(), rate.fill.as_bps()), false, |value| value.extract())
            }
            None => true,
        }
    }

    /// Returns zero: the package evaluates no closed form.
    fn steady_state(&self, _load: &OverloadCase) -> SteadyState {
        SteadyState { lossless: Bytes::ZERO, lossy: Bytes::ZERO }
    }

    fn describe(&self) -> Vec<String> {
        vec![self.kind.description.clone()]
    }

    fn gauges(&self, queue: &QueueView) -> Gauges {
        let Some(method) = &self.gauges else { return Gauges::NONE };
        let named = self.kind.gauges;
        let read = |value: &Bound<'_, PyAny>| unsigned(value, "gauge_values", 0);
        let values = method.gauge_values((PythonQueueView(*queue),), Vec::new(), read);
        match (named, values.as_slice()) {
            ([a], [of_a]) => Gauges::new([(a, *of_a)]),
            ([a, b], [of_a, of_b]) => Gauges::new([(a, *of_a), (b, *of_b)]),
            ([a, b, c], [of_a, of_b, of_c]) => Gauges::new([(a, *of_a), (b, *of_b), (c, *of_c)]),
            ([a, b, c, d], [of_a, of_b, of_c, of_d]) => Gauges::new([(a, *of_a), (b, *of_b), (c, *of_c), (d, *of_d)]),
            _ => Gauges::NONE,
        }
    }
}

/// State of the queue that a policy bounds.
#[pyclass(name = "QueueView", module = "weir", frozen)]
pub(crate) struct PythonQueueView(QueueView);

#[pymethods]
impl PythonQueueView {
    /// Lossless ingress queue (port of arrival), or lossy egress queue (port of departure).
    #[getter]
    fn queue(&self) -> PythonQueueId {
        PythonQueueId(self.0.queue)
    }

    /// True for a lossless ingress queue.
    #[getter]
    fn lossless(&self) -> bool {
        self.0.lossless
    }

    /// Length in bytes: w_s of a lossless ingress queue, the whole length of a lossy egress queue.
    #[getter]
    fn length(&self) -> u64 {
        self.0.length
    }

    /// Headroom occupancy w_h in bytes.
    #[getter]
    fn headroom(&self) -> u64 {
        self.0.headroom
    }

    /// True if the queue is OFF.
    #[getter]
    fn off(&self) -> bool {
        self.0.off
    }

    /// True if any queue of the ingress port is OFF; set only for a class that defines an `on_` method.
    #[getter]
    fn port_off(&self) -> bool {
        self.0.port_off
    }

    /// Occupancy of the shared segment.
    #[getter]
    fn shared_pool(&self) -> PythonPoolLevel {
        PythonPoolLevel(self.0.shared_pool)
    }

    /// Instant of the decision in picoseconds.
    #[getter]
    fn now(&self) -> u64 {
        self.0.now.as_picos()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Occupancy of a pool, in bytes.
#[pyclass(name = "PoolLevel", module = "weir", frozen)]
pub(crate) struct PythonPoolLevel(PoolLevel);

#[pymethods]
impl PythonPoolLevel {
    /// Capacity.
    #[getter]
    fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// Bytes in use.
    #[getter]
    fn used(&self) -> u64 {
        self.0.used
    }

    /// Free bytes.
    #[getter]
    fn free(&self) -> u64 {
        self.0.free()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Queue of a port.
#[pyclass(name = "QueueId", module = "weir", frozen)]
pub(crate) struct PythonQueueId(QueueId);

#[pymethods]
impl PythonQueueId {
    /// Number of the port, from 0.
    #[getter]
    fn port(&self) -> u16 {
        self.0.port().0
    }

    /// Class of the queue, from 0 to 7.
    #[getter]
    fn class_(&self) -> u8 {
        self.0.class().number()
    }

    fn __repr__(&self) -> String {
        format!("QueueId(port={}, class_={})", self.port(), self.class_())
    }
}

/// Bounds on the shared occupancy w_s of a lossless ingress queue.
#[pyclass(name = "Threshold", module = "weir", frozen)]
pub(crate) struct PythonThreshold(Threshold);

#[pymethods]
impl PythonThreshold {
    #[new]
    fn new(admit: &Bound<'_, PyAny>, xoff: &Bound<'_, PyAny>) -> PyResult<PythonThreshold> {
        let [admit, xoff] = [unsigned(admit, "admit", 0)?, unsigned(xoff, "xoff", 0)?];
        Ok(PythonThreshold(Threshold { admit, xoff }))
    }

    /// Bound on w_s, including the arriving packet, for a packet to go to the shared segment.
    #[getter]
    fn admit(&self) -> u64 {
        self.0.admit
    }

    /// Xoff: PAUSE when w_s reaches it.
    #[getter]
    fn xoff(&self) -> u64 {
        self.0.xoff
    }
}
