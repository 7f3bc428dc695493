//! Captures that clients ask for: begun by the control thread, written as pcapng by the client's thread.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use weir_config::SwitchConfig;
use weir_control::Stream;
use weir_control::capture::{CaptureDirection, CaptureFrames as AskingFor, CaptureRequest as Asking, CaptureStarted};
use weir_control::protocol::{ErrorReply, ErrorReplyKind};
use weir_dpdk_driver::{
    CAPTURES_MAX, Capture, CaptureFilter, CaptureState, CapturedFrame, FrameFilter, RunningSwitches, SNAPLEN_MAX,
};
use weir_switch_core::{Direction, Shared};
use weir_units::{CLASSES, Class, ClassSet, PortId, Time};

use super::{ControlContext, ports_of};

/// Time for which a frame waits for earlier ones of other lcores.
const SORTED_WITHIN: Duration = Duration::from_millis(2);

/// Running captures, whose ends are logged.
#[derive(Default)]
pub(super) struct CaptureLog {
    active: Vec<(String, String, Arc<CaptureState>)>,
}

/// A capture's frames as pcapng, for its client.
pub(super) struct CaptureStream {
    capture: Capture,
    comment_source: CommentSource,
    pcapng: PcapNgWriter<Vec<u8>>,
    /// Capture interface and number of written frames, by port.
    interfaces: Vec<Option<(u32, u64)>>,
    taken: Vec<CapturedFrame>,
    /// Frames that may come after others of another lcore.
    waiting: Vec<(CapturedFrame, Instant)>,
    frames_left: u64,
    until: Option<Instant>,
    is_ending: bool,
    is_over: bool,
}

/// Source of a frame's comment.
struct CommentSource {
    ports: Vec<String>,
    shared: Arc<Shared>,
    /// The switches' clock and Unix time at one instant.
    began: (Time, Duration),
}

impl CaptureLog {
    /// Begins a capture of switch `index`.
    pub(super) fn begin(
        &mut self,
        index: usize,
        asking: &Asking,
        context: ControlContext<'_>,
    ) -> Result<(CaptureStarted, CaptureStream), ErrorReply> {
        let config = &context.switches[index];
        let (ports, filter) = capture_filter(config, index, asking, context)?;
        let began = (context.running.now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let until = asking.for_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        let capture = context.running.capture(index, filter);
        let capture =
            capture.map_err(|error| ErrorReply::new(ErrorReplyKind::Busy, error.to_string()))?.ok_or_else(|| {
                let message = format!("switch {} has {CAPTURES_MAX} captures already; end one of them", config.name);
                ErrorReply::new(ErrorReplyKind::Busy, message)
            })?;
        let names: Vec<String> = ports.iter().map(|port| config.ports[*port].name.clone()).collect();
        self.active.push((config.name.clone(), names.join(", "), capture.state().clone()));
        let comment_source = CommentSource {
            ports: config.ports.iter().map(|port| port.name.clone()).collect(),
            shared: context.running.shared(index).clone(),
            began,
        };
        let pcapng = begun(config, &ports, &comment_source, asking);
        let mut interfaces = vec![None; config.ports.len()];
        (0..).zip(&ports).for_each(|(interface, port)| interfaces[*port] = Some((interface, 0)));
        let stream = CaptureStream {
            capture,
            comment_source,
            pcapng,
            interfaces,
            taken: Vec::new(),
            waiting: Vec::new(),
            frames_left: asking.frames.unwrap_or(u64::MAX),
            until,
            is_ending: false,
            is_over: false,
        };
        Ok((CaptureStarted { switch: config.name.clone(), ports: names }, stream))
    }

    /// Makes lcores release ended captures, and logs their results.
    pub(super) fn end_over(&mut self, running: &RunningSwitches) {
        if self.active.is_empty() {
            return;
        }
        running.end_captures();
        self.log_ended();
    }

    /// Logs the results of ended captures, each once.
    pub(super) fn log_ended(&mut self) {
        self.active.retain(|(switch, ports, state)| {
            if state.is_over() {
                let (written, missed) = (state.written(), state.missed_in_all());
                let missed = if missed > 0 { format!(", {missed} missed by the capture") } else { String::new() };
                tracing::info!(%switch, "weir capture: {ports} has ended: {written} frames{missed}");
            }
            !state.is_over()
        });
    }
}

/// Filter of the frames to capture.
fn capture_filter(
    config: &SwitchConfig,
    index: usize,
    asking: &Asking,
    context: ControlContext<'_>,
) -> Result<(Vec<usize>, CaptureFilter), ErrorReply> {
    let invalid = |message: String| Err(ErrorReply::new(ErrorReplyKind::Invalid, message));
    let mut ports = ports_of(context.switches, &[index], &asking.ports)?.remove(0);
    ports.sort_unstable();
    ports.dedup();
    let clone = ports.iter().find_map(|port| Some((&config.ports[*port].name, config.ports[*port].clone_of()?)));
    if let (Some((port, real)), false, false) = (clone, asking.ports.is_empty(), asking.drops) {
        return invalid(format!(
            "port {port} copies what {real} receives and has no frames of its own: capture {real}, or what is dropped at {port}: \
             --drops"
        ));
    }
    if !asking.drops {
        ports.retain(|port| config.ports[*port].clone_of().is_none());
    }
    if let Some(class) = asking.classes.iter().find(|class| usize::from(**class) >= CLASSES) {
        return invalid(format!("there is no class {class}: classes are 0 to {}", CLASSES - 1));
    }
    if asking.passing == AskingFor::None && !asking.drops {
        return invalid("neither passing frames nor drops are wanted".to_owned());
    }
    if asking.snaplen.is_some_and(|bytes| !(14..=SNAPLEN_MAX).contains(&bytes)) {
        return invalid(format!("a snapshot length is 14 to {SNAPLEN_MAX} bytes"));
    }
    let classes: ClassSet = asking.classes.iter().map(|class| Class::new(*class)).collect();
    let filter = CaptureFilter {
        ports: ports.iter().map(|port| PortId(*port as u16)).collect(),
        classes: if classes.is_empty() { ClassSet::ALL } else { classes },
        passing: match asking.passing {
            AskingFor::All => FrameFilter::All,
            AskingFor::Control => FrameFilter::Control,
            AskingFor::None => FrameFilter::None,
        },
        inbound: asking.direction != Some(CaptureDirection::Out),
        outbound: asking.direction != Some(CaptureDirection::In),
        drops: asking.drops,
        snaplen: asking.snaplen.unwrap_or(SNAPLEN_MAX),
    };
    Ok((ports, filter))
}

/// A section with an interface for each port.
fn begun(
    config: &SwitchConfig,
    ports: &[usize],
    comment_source: &CommentSource,
    asking: &Asking,
) -> PcapNgWriter<Vec<u8>> {
    /// Timestamps count 10^-9 s.
    const NANOSECONDS: u8 = 9;
    let section = SectionHeaderBlock {
        endianness: Endianness::Big,
        options: vec![
            SectionHeaderOption::Hardware(Cow::Owned(format!("Weir switch {}", config.name))),
            SectionHeaderOption::UserApplication(Cow::Borrowed(concat!("weir ", env!("CARGO_PKG_VERSION")))),
        ],
        ..SectionHeaderBlock::default()
    };
    let mut pcapng = PcapNgWriter::with_section_header(Vec::new(), section).expect(IN_MEMORY);
    for port in ports {
        let (port, state) = (&config.ports[*port], &comment_source.shared.ports()[*port]);
        let mut description = format!("port {} of switch {}, {}", port.name, config.name, port.flow_control.kind());
        if config.time_dilation > 1 {
            description +=
                &format!("; time counts the switch's seconds, which take {} real ones", config.time_dilation);
        }
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(&port.name)),
            InterfaceDescriptionOption::IfDescription(Cow::Owned(description)),
            InterfaceDescriptionOption::IfMacAddr(Cow::Borrowed(&state.mac.0)),
            InterfaceDescriptionOption::IfSpeed(state.rate().as_bps()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let snaplen = asking.snaplen.unwrap_or(SNAPLEN_MAX);
        let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen, options };
        pcapng.write_block(&interface.into_block()).expect(IN_MEMORY);
    }
    pcapng
}

impl Stream for CaptureStream {
    fn take(&mut self, bytes: &mut Vec<u8>) -> bool {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.end();
        }
        // The rings hold all earlier frames now.
        let is_last = self.is_ending;
        self.capture.take(&mut self.taken);
        let now = Instant::now();
        self.waiting.extend(self.taken.drain(..).map(|frame| (frame, now)));
        self.waiting.sort_by_key(|(frame, _)| frame.at);
        let old = |(_, taken_at): &(CapturedFrame, Instant)| is_last || now.duration_since(*taken_at) >= SORTED_WITHIN;
        let ready = self.waiting.iter().take_while(|waiting| old(waiting)).count();
        let ready = ready.min(usize::try_from(self.frames_left).unwrap_or(usize::MAX));
        let mut frames = std::mem::take(&mut self.waiting);
        frames.drain(..ready).for_each(|(frame, _)| self.write(&frame));
        self.waiting = frames;
        self.frames_left -= ready as u64;
        self.capture.state().record_written(ready as u64);
        if self.frames_left == 0 || is_last && !self.is_over {
            self.end();
            self.write_statistics();
            self.is_over = true;
        }
        bytes.append(self.pcapng.get_mut());
        !self.is_over
    }

    fn end(&mut self) {
        self.capture.state().end();
        self.is_ending = true;
    }
}

impl CaptureStream {
    fn write(&mut self, frame: &CapturedFrame) {
        let Some((interface, count)) = &mut self.interfaces[frame.port.index()] else { return };
        *count += 1;
        let flags = match frame.direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        let packet = EnhancedPacketBlock {
            interface_id: *interface,
            timestamp: self.comment_source.unix(frame.at),
            original_len: frame.frame_bytes,
            data: Cow::Borrowed(&frame.bytes),
            options: vec![
                EnhancedPacketOption::Comment(Cow::Owned(self.comment_source.comment(frame))),
                EnhancedPacketOption::Flags(flags),
            ],
        };
        self.pcapng.write_block(&packet.into_block()).expect(IN_MEMORY);
    }

    /// Writes how many frames of each interface were captured and missed.
    fn write_statistics(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let began = self.comment_source.began.1.as_nanos() as u64;
        let interfaces = (0..).map(PortId).zip(&self.interfaces);
        for (port, (interface, count)) in interfaces.filter_map(|(port, interface)| Some((port, interface.as_ref()?))) {
            let missed = self.capture.state().missed(port);
            let options = vec![
                InterfaceStatisticsOption::IsbStartTime(began),
                InterfaceStatisticsOption::IsbEndTime(now),
                InterfaceStatisticsOption::IsbIfRecv(*count + missed),
                InterfaceStatisticsOption::IsbIfDrop(missed),
            ];
            let block = InterfaceStatisticsBlock { interface_id: *interface, timestamp: now, options };
            self.pcapng.write_block(&block.into_block()).expect(IN_MEMORY);
        }
    }
}

impl CommentSource {
    /// Converts a time of the switches' clock to Unix time.
    fn unix(&self, at: Time) -> Duration {
        let (switch, calendar) = self.began;
        if at >= switch {
            calendar + Duration::from_nanos(at.since(switch).as_nanos())
        } else {
            calendar.saturating_sub(Duration::from_nanos(switch.since(at).as_nanos()))
        }
    }

    /// `drop=egress_threshold class=3 ingress=h0:3 held=252000 shared=251000 headroom=0 off=1 egress=h2:3 queue=301200
    /// pool=551196/820000`.
    fn comment(&self, frame: &CapturedFrame) -> String {
        let mut comment = String::new();
        let mut say = |key: &str, value: &dyn std::fmt::Display| {
            let space = if comment.is_empty() { "" } else { " " };
            comment += &format!("{space}{key}={value}");
        };
        let name = |port: PortId| &self.ports[port.index()];
        if let Some(reason) = frame.dropped {
            say("drop", &reason.name());
        }
        if let Some(class) = frame.context.class {
            say("class", &class.index());
        }
        if let Some((queue, levels)) = frame.context.ingress {
            say("ingress", &format_args!("{}:{}", name(queue.port()), queue.class().index()));
            say("held", &(u64::from(levels.private) + u64::from(levels.shared) + u64::from(levels.headroom)));
            say("shared", &levels.shared);
            say("headroom", &levels.headroom);
            say("off", &u8::from(levels.off));
        }
        if let Some((queue, length)) = frame.context.egress {
            say("egress", &format_args!("{}:{}", name(queue.port()), queue.class().index()));
            say("queue", &length);
        }
        let size = self.shared.mmu.pool_usage().capacity;
        say("pool", &format_args!("{}/{}", frame.context.shared_used, size.get()));
        comment
    }
}

const IN_MEMORY: &str = "memory takes all that is written";
