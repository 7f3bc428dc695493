//! `uec-cbfc`: credit-based flow control of UEC 1.0 (5.2). The receiver frees cells of its buffer and sends the count; the sender keeps the
//! cells in use within a limit. [`crate::cbfc`] has the state machines of both sides.
//!
//! In virtual time a CF_Update is an ordered set of 8 B below the MAC, as on UEC's links. On ports it is a MAC control frame, as CC_Update.
//! An overhead per packet is not configured: the buffer stores frames without any.

use std::ops::RangeInclusive;

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{BitRate, Bytes, Class, ClassSet, FCS_BYTES, LINK_OVERHEAD, Span, Time, count};
use weir_wire::mac_control::{ControlFrame, CreditUpdate};

use super::closed_form::{LIMIT_BY_DEFAULT, MESSAGE, check_share, limit_from, share};
use crate::cbfc::{CellCounters, CellCredits, CellSize, UpdateTimer};
use crate::keys::LENGTHS;
use crate::pfc::PauseTimers;
use crate::{
    BufferState, ConfigRejection, Description, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext,
    FlowControlInitiator, FlowControlKind, FlowControlReceiver, MessageGenerator, MessageKind, PortFlowControl,
    PortParameters, QueueLimit, ReceiveAccounting, wire_bytes,
};

const LIMIT: Key<Bytes> =
    Key::size("limit", LENGTHS, "credit limit, in whole cells (`cell_bytes` of the buffer); equal at both ends")
        .or_else(LIMIT_BY_DEFAULT);
const SHARED: Key<bool> =
    Key::boolean("shared", "whether `limit` is for all classes of the port together, not for each").or("false");
const CF_MIN_SPACING: Key<Bytes> =
    Key::size("cf_min_spacing", MIN_SPACINGS, "least byte times between two CF_Updates").or("6400B");
const CF_MAX_SPACING: Key<Bytes> =
    Key::size("cf_max_spacing", MAX_SPACINGS, "byte times after which an unchanged count is sent again").or("262144B");
const CC_PERIOD: Key<Span> = Key::time("cc_period", CC_PERIODS, "time between two CC_Updates").or("256us");

const MIN_SPACINGS: RangeInclusive<Bytes> = Bytes::new(800)..=Bytes::new(1 << 20);
const MAX_SPACINGS: RangeInclusive<Bytes> = Bytes::new(16 << 10)..=Bytes::new(1 << 20);
const CC_PERIODS: RangeInclusive<Span> = Span::from_micros(1)..=Span::from_millis(250);

/// Kind `uec-cbfc`.
pub(super) static KIND: UecCbfcKind = UecCbfcKind;

#[derive(Debug)]
pub(super) struct UecCbfcKind;

impl Plugin for UecCbfcKind {
    fn id(&self) -> &'static str {
        "uec-cbfc"
    }

    fn keys(&self) -> Keys {
        &[&LIMIT, &SHARED, &CF_MIN_SPACING, &CF_MAX_SPACING, &CC_PERIOD]
    }
}

impl FlowControlKind for UecCbfcKind {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(UecCbfcConfig {
            limit: table.given(&LIMIT),
            is_shared: table.get(&SHARED),
            spacing: table.get(&CF_MIN_SPACING),
            repeat: table.get(&CF_MAX_SPACING),
            period: table.get(&CC_PERIOD),
        })
    }
}

/// Settings of UEC's CBFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UecCbfcConfig {
    /// `limit`: credit limit. `None` is the buffer reserved for a queue, minus a frame.
    pub limit: Option<Bytes>,
    /// `shared`: the limit is for all classes of the port together.
    pub is_shared: bool,
    /// `cf_min_spacing`, in byte times.
    pub spacing: Bytes,
    /// `cf_max_spacing`, in byte times.
    pub repeat: Bytes,
    /// `cc_period`: time between two CC_Updates.
    pub period: Span,
}

impl UecCbfcConfig {
    fn for_port(&self, port: &FlowControlContext) -> Result<UecCbfc, ConfigRejection> {
        let reject = |key, message, help| Err(ConfigRejection { key, message, help });
        if port.cell_bytes < CellSize::MIN {
            let message = format!(
                "`cell_bytes` {} in [buffer] is no cell for \"uec-cbfc\", which counts whole cells of {} B or more",
                port.cell_bytes,
                CellSize::MIN
            );
            return reject("kind", message, "write cell_bytes = 128 in [buffer]".to_owned());
        }
        if self.spacing > self.repeat {
            let message = format!("`cf_min_spacing` {} is above `cf_max_spacing` {}", self.spacing, self.repeat);
            return reject(CF_MIN_SPACING.name, message, format!("write cf_min_spacing = \"{}\" or less", self.repeat));
        }
        check_share(CC_PERIOD.name, port.rate, self.period)?;
        let cell = CellSize::new(port.cell_bytes);
        let (limit, frame) = (cell.cells_in(port.limit), frame_cells(port, cell));
        if limit > u64::from(CreditUpdate::MASK) {
            let message = format!("`limit` {} is {} cells, but counts have 20 bits", port.limit, count(limit));
            let most = Bytes::new(u64::from(CreditUpdate::MASK) * u64::from(cell.bytes()));
            return reject(LIMIT.name, message, format!("write limit = \"{most}\" or less, or larger cells"));
        }
        if limit < u64::from(frame) {
            let message = format!("`limit` {} is {limit} cells, but the longest frame takes {frame}", port.limit);
            let least = Bytes::new(u64::from(frame * cell.bytes()));
            return reject(LIMIT.name, message, format!("write limit = \"{least}\" or more"));
        }
        let time = |bytes| port.rate.time_for(bytes);
        Ok(UecCbfc {
            cell,
            limit: limit as u32,
            is_shared: self.is_shared,
            spacing: time(self.spacing),
            repeat: time(self.repeat),
            period: self.period,
        })
    }

    /// Returns the byte times that an update waits for the least spacing: none where frames of the longest length are further apart.
    fn wait(&self, port: &FlowControlContext) -> Bytes {
        if self.spacing > longest_on_wire(port) { self.spacing } else { Bytes::ZERO }
    }

    /// Returns the byte times from the start of a frame until the CF_Update with its cells has arrived, where no data goes the other way.
    fn time_in_use(&self, port: &FlowControlContext) -> Bytes {
        let delay = port.delay * 2 + port.reaction + port.tx_backlog;
        port.rate.bytes_in(delay) + self.wait(port) + longest_on_wire(port) + MESSAGE
    }

    /// Returns the cells that a link needs for the full rate, with frames of the longest length.
    fn cells_min(&self, port: &FlowControlContext, cell: CellSize) -> u64 {
        self.time_in_use(port).get().div_ceil(longest_on_wire(port).get()) * u64::from(frame_cells(port, cell))
    }
}

impl FlowControlConfig for UecCbfcConfig {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn label(&self) -> &'static str {
        "UEC CBFC"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn limit(&self) -> Option<QueueLimit> {
        Some(QueueLimit { key: LIMIT.name, given: self.limit, threshold: None, is_unsafe: None })
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        self.for_port(port).map(PortFlowControl::new)
    }

    fn repetition(&self, rate: BitRate) -> Option<Span> {
        Some(self.period.max(rate.time_for(self.repeat)))
    }

    fn common_values(&self, port: &FlowControlContext) -> Vec<(&'static str, String)> {
        let cells = port.limit.get() / u64::from(port.cell_bytes);
        let limit = (LIMIT.name, format!("{} cells", count(cells)));
        vec![("cell_bytes", format!("{} B", port.cell_bytes)), limit, (SHARED.name, self.is_shared.to_string())]
    }

    fn describe(&self, port: &FlowControlContext) -> Option<Description> {
        let UecCbfc { cell, limit, period, .. } = self.for_port(port).ok()?;
        let of = if self.is_shared { "for all classes together" } else { "for each class" };
        let least = self.cells_min(port, cell);
        let wait = match self.wait(port) {
            Bytes::ZERO => String::new(),
            wait => format!(" + `cf_min_spacing` {} B", count(wait.get())),
        };
        let terms = format!(
            "2 D_prop {} + reaction {}{wait} + a frame of {} B + CF_Update {} B",
            port.delay * 2,
            port.reaction + port.tx_backlog,
            count(longest_on_wire(port).get()),
            MESSAGE.get(),
        );
        let update_share = |bytes: u64| 100.0 * bytes as f64 / self.spacing.get() as f64;
        let description = Description::default()
            .line(format!(
                "limit = {} B{}: {} cells of {} B, {of}",
                count(port.limit.get()),
                limit_from(self.limit),
                count(u64::from(limit)),
                cell.bytes()
            ))
            .line(format!("full rate with the longest frames needs {} cells: {terms}", count(least)))
            .line(format!(
                "at most {:.3} % of the link for CF_Update (a frame of {} B; in virtual time 8 B, {:.3} %)",
                update_share(MESSAGE.get()),
                MESSAGE.get(),
                update_share(CreditUpdate::ORDERED_SET.get())
            ))
            .line(format!("CC_Update each {period}: {}", share(port.rate, period)));
        Some(description)
    }

    fn warnings(&self, port: &FlowControlContext) -> Vec<String> {
        let Ok(UecCbfc { cell, limit, .. }) = self.for_port(port) else { return Vec::new() };
        let least = self.cells_min(port, cell);
        let frames = u64::from(limit / frame_cells(port, cell));
        let rate = port.rate.as_bps() as u128 * u128::from(frames * longest_on_wire(port).get())
            / u128::from(self.time_in_use(port).get());
        let is_short = u64::from(limit) < least;
        let warning = format!(
            "a limit of {} cells holds {frames} frames of the longest length in use, which pass at least {}; full rate needs {} cells",
            count(u64::from(limit)),
            BitRate::bps(rate as u64),
            count(least)
        );
        if is_short { vec![warning] } else { Vec::new() }
    }

    fn silence_warning(&self) -> Option<&'static str> {
        Some("without credit nothing of its classes is sent")
    }

    fn loss_hint(&self) -> (&'static str, &'static str) {
        (
            "arrivals exceeded the credit",
            "does the peer speak UEC's CBFC, with the same `limit` and `cell_bytes`, and has the buffer room for that?",
        )
    }
}

/// UEC's CBFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UecCbfc {
    /// Size of the receiver's cell.
    pub cell: CellSize,
    /// Limit, in cells.
    pub limit: u32,
    /// Whether the limit is for all classes together.
    pub is_shared: bool,
    /// Least time between two CF_Updates.
    pub spacing: Span,
    /// Time after which a count is sent again.
    pub repeat: Span,
    /// Time between two CC_Updates.
    pub period: Span,
}

impl FlowControl for UecCbfc {
    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn uses_queue_length(&self) -> bool {
        true
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        let timer = UpdateTimer::new(port.classes, self.cell, self.spacing, self.repeat, self.period);
        MessageGenerator::from_initiator(UpdateInitiator(timer))
    }

    fn receiver(&self, port: PortParameters) -> Box<dyn FlowControlReceiver> {
        let sharing = if self.is_shared { port.classes } else { ClassSet::EMPTY };
        Box::new(CellCredits::new(self.cell, self.limit, sharing))
    }

    fn receive_accounting(&self, _link_overhead: Bytes) -> ReceiveAccounting {
        ReceiveAccounting::Cells(CellCounters::new(self.cell))
    }

    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        vec![("limit".to_owned(), Bytes::new(u64::from(self.limit * self.cell.bytes())))]
    }
}

#[derive(Debug)]
struct UpdateInitiator(UpdateTimer);

impl FlowControlInitiator for UpdateInitiator {
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        let ReceiveAccounting::Cells(receiver) = buffer.arrived else { return None };
        let freed = |class| receiver.freed(class, || (buffer.occupancy)(class));
        self.0.poll(now, freed, buffer.blocks_sent).map(ControlFrame::Update)
    }

    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, _buffer: &BufferState<'_>) {
        if let ControlFrame::Update(update) = frame {
            self.0.handle_sent(now, update);
        }
    }

    fn restart(&mut self, at: Time) {
        self.0.restart(at);
    }

    fn next_wakeup(&self, now: Time) -> Time {
        self.0.next_wakeup(now)
    }
}

impl FlowControlReceiver for CellCredits {
    fn handle(&self, _now: Time, frame: &ControlFrame, _pause_timers: &PauseTimers) -> bool {
        let ControlFrame::Update(update) = frame else { return false };
        self.handle_update(update)
    }

    fn reset(&self, _now: Time) {
        CellCredits::reset(self);
    }

    fn needs_credit(&self) -> bool {
        true
    }

    fn shares_credit(&self) -> bool {
        CellCredits::shares_credit(self)
    }

    fn has_credit(&self, class: Class, frame_bytes: u32) -> bool {
        self.may_send(class, frame_bytes)
    }

    fn counts_sent(&self) -> bool {
        true
    }

    fn handle_sent(&self, class: Class, frame_bytes: u32) {
        CellCredits::handle_sent(self, class, frame_bytes);
    }

    fn has_credit_for(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        self.may_send_all(class, frames, bytes)
    }

    fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        CellCredits::handle_all_sent(self, class, frames);
    }

    fn sent_total(&self, class: Class) -> u32 {
        CellCredits::sent_total(self, class)
    }

    fn invalid_messages(&self) -> u64 {
        self.excessive()
    }

    fn excessive_credits(&self) -> u64 {
        self.excessive()
    }
}

/// Returns the cells of the longest frame.
fn frame_cells(port: &FlowControlContext, cell: CellSize) -> u32 {
    cell.cells((port.frame_max.get() - FCS_BYTES) as u32)
}

/// Returns the longest frame's bytes on the wire.
fn longest_on_wire(port: &FlowControlContext) -> Bytes {
    wire_bytes((port.frame_max.get() - FCS_BYTES) as u32, LINK_OVERHEAD)
}
