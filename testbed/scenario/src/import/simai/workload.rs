//! Workload files of SimAI: a line of settings, the number of layers, and a line for each.

use weir_units::Span;

use crate::import::ImportErrors;
use crate::import::collectives::CollectiveKind;
use crate::import::text::{ErrorCollector, SourceFile};

/// Layers of a model, and the groups of its GPUs.
#[derive(Debug)]
pub(super) struct SimaiWorkload {
    /// Sizes of tensor- and expert-parallel groups.
    pub tensor: u32,
    pub expert: u32,
    pub gpus: u32,
    /// Settings of passes that are repeated, or divided.
    pub repeated: Vec<String>,
    pub layers: Vec<Layer>,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub forward: LayerStep,
    pub input_gradient: LayerStep,
    pub weight_gradient: LayerStep,
    /// Time after the collective of the weight gradient.
    pub update: Span,
}

/// Computation of a layer, and the collective after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerStep {
    pub compute: Span,
    pub collective: Option<(CollectiveKind, ParallelGroup)>,
    /// Whole buffer.
    pub bytes: u64,
}

/// Ranks that take part in a collective, in the order tensor, expert, data parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParallelGroup {
    Tensor,
    Expert,
    /// Ranks of the same tensor rank.
    Data,
    /// Ranks of the same tensor and expert rank.
    DataOfExpert,
}

const KINDS: [(&str, CollectiveKind); 4] = [
    ("ALLREDUCE", CollectiveKind::AllReduce),
    ("ALLGATHER", CollectiveKind::AllGather),
    ("REDUCESCATTER", CollectiveKind::ReduceScatter),
    ("ALLTOALL", CollectiveKind::AllToAll),
];

impl SimaiWorkload {
    pub(super) fn read(file: &SourceFile) -> Result<SimaiWorkload, ImportErrors> {
        let fail =
            |line: usize, problem: String, help: &str| Err(ImportErrors::one(&file.name, Some(line), problem, help));
        let mut lines =
            (1..).zip(file.text.lines()).map(|(number, line)| (number, line.split_whitespace().collect::<Vec<_>>()));
        let Some((_, settings)) = lines.next().filter(|(_, fields)| !fields.is_empty()) else {
            return fail(1, "the file is empty".to_owned(), "name a workload of SimAI or AICB");
        };
        if !["HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER"].contains(&settings[0]) {
            let problem = format!("workloads of kind {} are not imported", settings[0]);
            return fail(1, problem, "name one of kind HYBRID_TRANSFORMER_FWD_IN_BCKWD");
        }
        let setting = |key: &str| {
            let place = settings.iter().position(|field| *field == key)?;
            settings.get(place + 1)?.parse::<u32>().ok()
        };
        let required = |key: &str| {
            setting(key).filter(|value| *value > 0).ok_or_else(|| {
                ImportErrors::one(&file.name, Some(1), format!("{key} is missing or 0"), format!("write {key} 8"))
            })
        };
        let [tensor, gpus] = [required("model_parallel_NPU_group:")?, required("all_gpus:")?];
        let expert = setting("ep:").unwrap_or(1).max(1);
        if let Some(stages) = setting("pp:").filter(|stages| *stages > 1) {
            return fail(1, format!("pipeline stages (pp: {stages}) are not simulated, as by SimAI"), "write pp: 1");
        }
        let is_repeated = |key: &&str| setting(key).is_some_and(|passes| passes > 1);
        let repeated = ["vpp:", "ga:"].into_iter().filter(is_repeated);
        let repeated = repeated.filter_map(|key| Some(format!("{key} {}", setting(key)?))).collect();
        if setting("checkpoints:").unwrap_or(0) > 0 || setting("checkpoint_initiates:").unwrap_or(0) > 0 {
            let problem = "recomputation from checkpoints is not simulated".to_owned();
            return fail(1, problem, "write checkpoints: 0 checkpoint_initiates: 0");
        }
        for setting in settings[1..].chunks(2) {
            let is_number = |value: &&str| value.parse::<u32>().is_ok();
            if !setting[0].ends_with(':') || !setting.get(1).is_some_and(is_number) {
                let problem = format!("`{}` is no setting with a number from 0", setting.join(" "));
                return fail(1, problem, "write settings as ep: 1");
            }
        }
        if tensor.checked_mul(expert).is_none_or(|group| !gpus.is_multiple_of(group)) {
            return fail(
                1,
                format!("{gpus} GPUs are no multiple of {tensor} · {expert}"),
                "write all_gpus: as a multiple of both groups",
            );
        }
        let mut errors = ErrorCollector::new(&file.name);
        let count = match lines.next().as_ref().map(|(_, fields)| fields.as_slice()) {
            Some([count]) => errors.integer(2, count, "the number of layers", "2"),
            _ => return fail(2, "the number of layers is missing".to_owned(), "write it alone in this line"),
        };
        let layers: Vec<Layer> = lines
            .filter(|(_, fields)| !fields.is_empty())
            .filter_map(|(number, fields)| read_layer(number, &fields, &mut errors))
            .collect();
        if let Some(count) = count.filter(|count| *count as usize != layers.len() && errors.is_empty()) {
            errors.add(2, format!("there are {} layers, not {count}", layers.len()), format!("write {}", layers.len()));
        }
        errors.result(SimaiWorkload { tensor, expert, gpus, repeated, layers })
    }
}

fn read_layer(line: usize, fields: &[&str], errors: &mut ErrorCollector<'_>) -> Option<Layer> {
    let (values, update) = match fields {
        [_, _, values @ .., update] if values.len() == 9 => (values, update),
        _ => (&[][..], &""),
    };
    if values.is_empty() {
        let help =
            "write name, dependency, three times a time, a collective and its bytes, then the time of the update";
        errors.add(line, format!("a layer has 12 fields, this one {}", fields.len()), help);
        return None;
    }
    let number = |text: &str, errors: &mut ErrorCollector<'_>| {
        errors.value(line, text, "a number of bytes", "write a whole number", text.parse::<u64>().ok())
    };
    let time = |text: &str, errors: &mut ErrorCollector<'_>| {
        let picos = text.parse::<u64>().ok().and_then(|ns| ns.checked_mul(1_000));
        errors
            .value(line, text, "a time in ns", "write a whole number, of less than half a year", picos)
            .map(Span::from_picos)
    };
    let mut steps = Vec::new();
    for (place, values) in values.chunks(3).enumerate() {
        let (compute, bytes) = (time(values[0], errors)?, number(values[2], errors)?);
        steps.push((compute, values[1], bytes, place == 2));
    }
    let update = time(update, errors)?;
    let steps: Vec<LayerStep> = steps
        .into_iter()
        .map(|(compute, name, bytes, is_weight)| {
            let collective = read_collective(line, name, is_weight, errors)?;
            Some(LayerStep { compute, collective, bytes })
        })
        .collect::<Option<_>>()?;
    let [forward, input_gradient, weight_gradient] = steps.try_into().ok()?;
    Some(Layer { forward, input_gradient, weight_gradient, update })
}

/// Reads a collective and its group; weight gradients are reduced by default among data-parallel ranks.
fn read_collective(
    line: usize,
    name: &str,
    is_weight: bool,
    errors: &mut ErrorCollector<'_>,
) -> Option<Option<(CollectiveKind, ParallelGroup)>> {
    if name == "NONE" {
        return Some(None);
    }
    if name.starts_with("ALLREDUCEALLTOALL") {
        let problem = format!("{name} is read by SimAI as an all-reduce without a group");
        errors.add(line, problem, "write ALLREDUCE and ALLTOALL in layers of their own");
        return None;
    }
    let (kind, group) = name.split_once('_').unwrap_or((name, ""));
    let kind = KINDS.iter().find(|(of_kind, _)| *of_kind == kind).map(|(_, kind)| *kind);
    let group = match group {
        "" if is_weight => Some(ParallelGroup::Data),
        "" => Some(ParallelGroup::Tensor),
        "EP" => Some(ParallelGroup::Expert),
        "DP_EP" => Some(ParallelGroup::DataOfExpert),
        _ => None,
    };
    let found = kind.zip(group);
    if found.is_none() {
        let help = "write NONE, or ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL, also with _EP or _DP_EP";
        errors.add(line, format!("there is no collective {name}"), help);
    }
    found.map(Some)
}
