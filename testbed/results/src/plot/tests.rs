mod axes;
mod shapes;

use proptest::prelude::*;
use roxmltree::{Document, Node};

use super::axis::AxisLength;
use super::geometry::Range;
use super::line::thinned;
use super::panel::moved_apart;
use super::*;

fn line(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> PlotLine {
    PlotLine { name: name.into(), points: points.into_iter().collect(), ..PlotLine::default() }
}

fn mark(label: &str, value: f64) -> PlotMark {
    PlotMark { label: label.into(), value, ..PlotMark::default() }
}

fn panel(title: &str, y_label: &str, lines: Vec<PlotLine>) -> Panel {
    let x_label = "time (ms)".to_owned();
    Panel { title: title.into(), x_label, y_label: y_label.into(), lines, ..Panel::default() }
}

fn figure(columns: usize, panels: Vec<Panel>) -> Figure {
    Figure { title: "A figure".into(), columns, panels, ..Figure::default() }
}

/// Queues and rates, which are noisy, of three switches under four flow controls.
fn sample() -> Figure {
    let times = || (0..10_000).map(|i| f64::from(i) / 500.0);
    let noise = |t: f64| (t * 1_234.5).sin() * (t * 777.7).cos();
    let settling = |t: f64, rate: f64| 1.0 - (-t * rate).exp();
    let controls = [("PFC", 780.0), ("CBFC", 800.0), ("buffer GFC", 840.0), ("time GFC", 745.0)];
    let queues = controls.map(|(control, settled)| {
        let queue = |t: f64, rate: f64| (t, settled * settling(t, rate) + 15.0 * noise(t) * settling(t, 1.0));
        let lines = [("S1", 0.8), ("S2", 1.0), ("S3", 1.3)]
            .map(|(switch, rate)| line(&format!("{switch}, port 1"), times().map(|t| queue(t, rate))));
        let marks = match control {
            "PFC" => vec![mark("Xoff 800 KB", 800.0), mark("Xon 797 KB", 797.0)],
            "CBFC" => vec![],
            "buffer GFC" => vec![mark("B_1 750 KB", 750.0), mark("buffer 1 MB", 1_000.0)],
            _ => vec![mark("B_0 492 KB", 492.0)],
        };
        Panel { marks, ..panel(control, "queue (KB)", lines.into()) }
    });
    let rates = controls.map(|(control, settled)| {
        let stops = settled < 840.0 && control != "time GFC";
        let rate = |t: f64, phase: f64| {
            (t, if stops && t > 8.0 { 0.0 } else { 5.0 + 4.9 * (-0.4 * t).exp() * (2.0 * t + phase).cos() })
        };
        let lines =
            [("H1", 0.0), ("H2", 0.7), ("H3", 1.4)].map(|(host, phase)| line(host, times().map(|t| rate(t, phase))));
        Panel { y_range: Some((0.0, 10.0)), ..panel("", "rate (Gb/s)", lines.into()) }
    });
    Figure {
        title: "Ring of three switches".into(),
        columns: 4,
        panels: queues.into_iter().chain(rates).collect(),
        ..Figure::default()
    }
}

/// Passes the SVG to `look` as an XML document.
fn with_svg<T>(figure: &Figure, look: impl FnOnce(Node<'_, '_>) -> T) -> T {
    let svg = figure.to_svg().unwrap();
    let document = Document::parse(&svg).expect("well-formed XML");
    look(document.root_element())
}

fn elements<'a, 'b>(svg: Node<'a, 'b>, tag: &'static str) -> impl Iterator<Item = Node<'a, 'b>> {
    svg.children().filter(move |node| node.has_tag_name(tag))
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

fn labels(svg: Node<'_, '_>) -> Vec<String> {
    let texts = elements(svg, "text").map(|text| text.text().unwrap_or("").trim().to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

/// Corners of a text's bounding box.
fn text_box(node: Node<'_, '_>) -> (f64, f64, f64, f64) {
    let text = node.text().unwrap_or("").trim();
    let (x, y, size) = (number(node, "x"), number(node, "y"), number(node, "font-size"));
    let ((left, _), (right, _)) = (FONT, size * 1.24).into_font().layout_box(text).unwrap();
    let width = f64::from(right - left);
    let (before, after) = match node.attribute("text-anchor").unwrap() {
        "start" => (0.0, width),
        "middle" => (width / 2.0, width / 2.0),
        _ => (width, 0.0),
    };
    let (above, below) = match node.attribute("dy").unwrap() {
        "0.76em" => (0.0, size),
        "0.5ex" => (size / 2.0, size / 2.0),
        _ => (size, 0.0),
    };
    if node.attribute("transform").is_some_and(|transform| transform.starts_with("rotate(270")) {
        return (x - above, y - after, x + below, y + before);
    }
    (x - before, y - above, x + after, y + below)
}

/// Asserts that labels neither overlap nor leave the figure.
fn assert_readable(figure: &Figure) {
    with_svg(figure, |svg| {
        let size: Vec<f64> = svg.attribute("viewBox").unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
        let texts = elements(svg, "text").filter(|text| !text.text().unwrap_or("").trim().is_empty());
        let boxes: Vec<_> = texts.map(|text| (text.text().unwrap().trim(), text_box(text))).collect();
        for (i, (text, one)) in boxes.iter().enumerate() {
            assert!(one.0 >= 0.0 && one.1 >= 0.0 && one.2 <= size[2] && one.3 <= size[3], "{text} is cut off");
            for (other_text, other) in &boxes[..i] {
                let is_apart = one.2 <= other.0 || other.2 <= one.0 || one.3 <= other.1 || other.3 <= one.1;
                assert!(is_apart, "{text} {one:?} and {other_text} {other:?} overlap");
            }
        }
    });
}

#[test]
fn all_labels_are_there_and_can_be_read() {
    let figure = sample();
    assert_readable(&figure);
    with_svg(&figure, |svg| {
        let labels = labels(svg);
        let count = |label: &str| labels.iter().filter(|text| *text == label).count();
        let once = ["Ring of three switches", "PFC", "CBFC", "buffer GFC", "time GFC", "S1, port 1", "H3"];
        once.into_iter().for_each(|label| assert_eq!(count(label), 1, "{label}"));
        ["Xoff 800 KB", "Xon 797 KB", "B_1 750 KB"]
            .into_iter()
            .for_each(|label| assert_eq!(count(label), 1, "{label}"));
        assert_eq!((count("queue (KB)"), count("rate (Gb/s)")), (1, 1), "left out where it is repeated");
        assert_eq!(count("time (ms)"), 4, "under the lowest panels");
        assert_eq!(count("20"), 4, "the time axis ends with a tick");
        assert!(svg.attribute("width").unwrap().parse::<u32>().unwrap() < 2_000);
    });
}

#[test]
fn long_names_and_crowded_marks_can_be_read() {
    let names = (0..12).map(|i| line(&format!("a flow with a name that is not short, number {i}"), [(0.0, 1.0)]));
    let mut crowded = panel("a title that is so long that the panel must grow for it", "queue (KB)", names.collect());
    crowded.marks = (0..8).map(|i| mark(&format!("mark {i}"), 0.01 * f64::from(i))).collect();
    let high = panel("high", "rate, as measured where a label needs much room (Gb/s)", vec![line("x", [(0.0, 1e6)])]);
    assert_readable(&figure(2, vec![crowded.clone(), high.clone(), high, crowded]));
    assert_readable(&Figure {
        title: "A title longer than the figure under it is wide, ".repeat(3),
        ..figure(1, vec![])
    });
}

#[test]
fn text_is_escaped() {
    let text = "T(t) < Xoff & \"φ̂\" > 'µ'";
    let lines = vec![line(text, [(0.0, 1.0), (1.0, 2.0)])];
    let figure = figure(1, vec![Panel { marks: vec![mark(text, 1.0)], ..panel(text, text, lines) }]);
    with_svg(&figure, |svg| assert_eq!(labels(svg).iter().filter(|label| *label == text).count(), 4));
}

#[test]
fn name_has_one_look_in_all_panels() {
    let points = [(0.0, 1.0), (1.0, 2.0), (2.0, 1.0)];
    let names: Vec<String> = (0..9).map(|i| format!("flow {i}")).collect();
    let all = names.iter().map(|name| line(name, points)).collect();
    let figure = figure(2, vec![panel("all", "rate (Gb/s)", all), panel("last", "", vec![line("flow 2", points)])]);
    let layout = Layout::new(&figure);
    let looks: Vec<_> = names.iter().map(|name| layout.legend.color_style(name)).collect();
    for (i, look) in looks.iter().enumerate() {
        assert!(!looks[..i].contains(look), "{} looks as another", names[i]);
        assert_eq!(look.is_repeated, i >= 7);
    }
    with_svg(&figure, |svg| {
        let of_color = elements(svg, "polyline").filter(|line| line.attribute("stroke") == Some("#009E73"));
        assert_eq!(of_color.count(), 3, "in the legend, in both panels");
    });
}

#[test]
fn nothing_to_draw_is_drawn() {
    let nothing = figure(4, vec![]);
    assert_readable(&nothing);
    assert_readable(&Figure::default());
    let lines = vec![line("no point", []), line("no value", [(0.0, f64::NAN), (1.0, f64::INFINITY)])];
    let empty = figure(2, vec![panel("empty", "queue (KB)", vec![]), panel("no values", "queue (KB)", lines)]);
    assert_readable(&empty);
    with_svg(&empty, |svg| assert!(labels(svg).contains(&"no value".to_owned())));
}

#[test]
fn line_is_interrupted_where_there_is_no_value() {
    let points = [(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, f64::NAN), (5.0, 3.0), (6.0, 3.0)];
    let figure = figure(1, vec![panel("", "", vec![line("threshold", points)])]);
    with_svg(&figure, |svg| {
        let color = |node: &Node<'_, '_>, attribute| node.attribute(attribute) == Some("#0072B2");
        let pieces = elements(svg, "polyline").filter(|node| color(node, "stroke")).count();
        assert_eq!(pieces, 3, "two pieces, and the legend");
        assert_eq!(elements(svg, "circle").filter(|node| color(node, "fill")).count(), 1, "a value alone");
    });
}

#[test]
fn peak_of_one_sample_is_drawn() {
    let points = (0..100_000).map(|i| (f64::from(i), if i == 77_777 { 900.0 } else { 100.0 }));
    let mut figure = figure(1, vec![panel("", "queue (KB)", vec![line("queue", points)])]);
    figure.panels[0].y_range = Some((0.0, 1_000.0));
    let plot = &Layout::new(&figure).cells[0];
    let level = |value: f64| f64::from(plot.plot_at.y) + f64::from(plot.plot.height) * (1.0 - value / 1_000.0);
    with_svg(&figure, |svg| {
        let drawn = elements(svg, "polyline").map(|node| node.attribute("points").unwrap());
        let points = drawn.max_by_key(|points| points.len()).unwrap().split_whitespace();
        let levels: Vec<f64> = points.map(|point| point.split_once(',').unwrap().1.parse().unwrap()).collect();
        assert!(levels.len() < 2_500, "{} points", levels.len());
        let highest = levels.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((highest - level(900.0)).abs() <= 2.0, "at {highest}, should be at {}", level(900.0));
        let lowest = levels.iter().copied().fold(0.0, f64::max);
        assert!((lowest - level(100.0)).abs() <= 2.0, "at {lowest}, should be at {}", level(100.0));
    });
}

proptest! {
    #[test]
    fn thinning_keeps_the_extremes_of_each_column(
        steps in prop::collection::vec((0.0..3.0_f64, -100.0..100.0_f64), 1..400),
        columns in 1_usize..40,
    ) {
        let mut at = 0.0;
        let points: Vec<(f64, f64)> = steps.into_iter().map(|(step, value)| { at += step; (at, value) }).collect();
        let x_range = Range { low: 0.0, high: at + 1.0 };
        let kept = thinned(&points, x_range, columns);
        prop_assert!(kept.iter().all(|point| points.contains(point)));
        prop_assert!(kept.is_sorted_by(|one, other| one.0 <= other.0));
        let column = |at: f64| (at / x_range.high * columns as f64) as usize;
        for i in 0..columns {
            let of_column = |points: &[(f64, f64)]| -> Vec<f64> {
                points.iter().filter(|point| column(point.0) == i).map(|point| point.1).collect()
            };
            let (all, kept) = (of_column(&points), of_column(&kept));
            prop_assert!(kept.len() <= 4 || kept.len() == all.len());
            prop_assert_eq!((all.first(), all.last()), (kept.first(), kept.last()));
            let highest = |values: &[f64]| values.iter().copied().fold(-101.0, f64::max);
            let lowest = |values: &[f64]| values.iter().copied().fold(101.0, f64::min);
            prop_assert_eq!((lowest(&all), highest(&all)), (lowest(&kept), highest(&kept)));
        }
    }

    #[test]
    fn levels_are_apart_and_move_no_further_than_they_must(wanted in prop::collection::vec(0..100_i32, 0..8)) {
        let mut wanted = wanted;
        wanted.sort_unstable();
        let levels = moved_apart(&wanted, 10, 100);
        prop_assert!(levels.windows(2).all(|pair| pair[1] - pair[0] >= 10));
        prop_assert!(levels.iter().all(|level| *level <= 100));
        if wanted.windows(2).all(|pair| pair[1] - pair[0] >= 10) {
            prop_assert_eq!(levels, wanted);
        }
    }
}

#[test]
fn panels_of_a_row_share_the_range_of_what_they_show() {
    let queue = |highest: f64| panel("", "queue (KB)", vec![line("queue", [(0.0, 0.0), (1.0, highest)])]);
    let rate = panel("", "rate (Gb/s)", vec![line("rate", [(0.0, -1.0), (1.0, 3.0)])]);
    let fixed = Panel { y_range: Some((2.0, 3.0)), ..queue(9_999.0) };
    let marked = Panel { marks: vec![mark("capacity", 2_000.0)], ..queue(5.0) };
    let layout = Layout::new(&figure(4, vec![queue(100.0), marked, rate, fixed, queue(10.0)]));
    let ranges: Vec<_> = layout.cells.iter().map(|cell| cell.y.range()).collect();
    let expected = [(0.0, 2_100.0), (0.0, 2_100.0), (-1.2, 3.2), (2.0, 3.0), (0.0, 10.5)];
    assert_eq!(ranges, expected.map(|(low, high)| Range { low, high }));
}

#[test]
fn ticks_have_the_decimals_that_tell_them_apart() {
    let labels = |low: f64, high: f64| {
        let axis = Axis::numbers(Scale::Linear, Range { low, high }, AxisLength::Up(px(180)));
        axis.labels().map(|(_, label)| label.to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(labels(0.0, 1_050.0), "0 200 400 600 800 1000");
    assert_eq!(labels(0.0, 1.05), "0.0 0.2 0.4 0.6 0.8 1.0");
    assert_eq!(labels(-0.02, 0.03), "-0.02 -0.01 0.00 0.01 0.02 0.03");
    assert_eq!(labels(5.0, 15.0), "6 8 10 12 14");
}

#[test]
fn files_are_written_or_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("figure.svg");
    sample().write_svg(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), sample().to_svg().unwrap());
    let error = sample().write_svg(&dir.path().join("missing/figure.svg")).unwrap_err().to_string();
    assert!(error.contains("missing/figure.svg: can't be written"), "{error}");
}
