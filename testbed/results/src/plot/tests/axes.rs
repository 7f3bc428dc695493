//! Ranges of axes, and legibility of their labels.

use super::*;
use crate::plot::cell::XLabels;

fn labels_of(axis: &Axis) -> String {
    axis.labels().map(|(_, label)| label.to_owned()).collect::<Vec<_>>().join(" ")
}

fn log_axis(low: f64, high: f64, length: i32) -> String {
    let range = Range { low: low.log10(), high: high.log10() };
    labels_of(&Axis::numbers(Scale::Log, range, AxisLength::Across(px(length))))
}

fn categories(names: impl IntoIterator<Item = String>) -> XAxis {
    XAxis::Categories(names.into_iter().collect())
}

/// A panel with a bar of 1 for each category.
fn barred(names: impl IntoIterator<Item = String>, bars: usize) -> Panel {
    let names: Vec<String> = names.into_iter().collect();
    let points: Vec<(f64, f64)> = (0..names.len()).map(|i| (i as f64, 1.0)).collect();
    let bar = |i| PlotLine { style: Style::Bars, ..line(&format!("control {i}"), points.clone()) };
    Panel {
        x_label: "workload".into(),
        x_axis: categories(names),
        ..panel("", "goodput (Gb/s)", (0..bars).map(bar).collect())
    }
}

/// Points of the SVG's polylines of this colour, outside the legend.
fn strokes(figure: &Figure, color: &str) -> Vec<Vec<(f64, f64)>> {
    with_svg(figure, |svg| {
        let drawn = elements(svg, "polyline").filter(|node| node.attribute("stroke") == Some(color));
        let point = |text: &str| text.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap();
        let points = drawn.map(|node| node.attribute("points").unwrap().split_whitespace().map(point).collect());
        points.skip(1).collect()
    })
}

#[test]
fn logarithmic_ticks_are_as_many_as_there_is_room_for() {
    assert_eq!(log_axis(1.0, 100.0, 270), "1 2 5 10 20 50 100");
    assert_eq!(log_axis(0.5, 30.0, 270), "0.5 1 2 5 10 20");
    assert_eq!(log_axis(1.0, 1e4, 270), "1 10 100 1000 10000");
    assert_eq!(log_axis(1.0, 1e6, 270), "10⁰ 10¹ 10² 10³ 10⁴ 10⁵ 10⁶");
    assert_eq!(log_axis(1.0, 1e12, 300), "10⁰ 10² 10⁴ 10⁶ 10⁸ 10¹⁰ 10¹²");
    assert_eq!(log_axis(1e-9, 1e-4, 300), "10⁻⁹ 10⁻⁸ 10⁻⁷ 10⁻⁶ 10⁻⁵ 10⁻⁴");
}

#[test]
fn narrow_logarithmic_range_has_numbers_at_equal_distances() {
    assert_eq!(log_axis(300.0, 420.0, 270), "320 340 360 380 400");
    assert_eq!(log_axis(3.1, 4.4, 270), "3.2 3.4 3.6 3.8 4.0 4.2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn labels_of_an_axis_are_apart(
        low in -8.0..8.0_f64,
        decades in 0.01..12.0_f64,
        length in 180..400_i32,
        is_log in any::<bool>(),
    ) {
        let (scale, range) = match is_log {
            true => (Scale::Log, Range { low, high: low + decades }),
            false => {
                let first = 10_f64.powf(low);
                (Scale::Linear, Range { low: first, high: first + 10_f64.powf(decades - 6.0) })
            }
        };
        let axis = Axis::numbers(scale, range, AxisLength::Across(px(length)));
        let middle = |at: f64| axis.part(at) * f64::from(px(length));
        let half = |label: &str| f64::from(text_width::text_width(label, TICK)) / 2.0;
        let labels: Vec<_> = axis.labels().collect();
        prop_assert!(!labels.is_empty());
        prop_assert!(labels.iter().all(|(at, _)| axis.contains(*at)), "{:?}", labels);
        // Even two labels may be too many where numbers are wide.
        if labels.len() > 2 {
            for pair in labels.windows(2) {
                let space = middle(pair[1].0) - half(pair[1].1) - middle(pair[0].0) - half(pair[0].1);
                prop_assert!(space > 0.0, "{:?}", labels);
            }
        }
    }
}

#[test]
fn panels_with_the_same_horizontal_axis_share_its_range() {
    let over = |x_label: &str, x_axis: XAxis, last: f64| Panel {
        x_label: x_label.into(),
        x_axis,
        ..panel("", "", vec![line("a", [(1.0, 1.0), (last, 2.0)])])
    };
    let linear = || XAxis::Numbers(Scale::Linear);
    let panels = vec![
        over("fan-in N", linear(), 5.0),
        over("fan-in N", linear(), 9.0),
        over("time (ms)", linear(), 3.0),
        over("fan-in N", XAxis::Numbers(Scale::Log), 100.0),
        Panel { x_range: Some((2.0, 4.0)), ..over("fan-in N", linear(), 77.0) },
        over("workload", categories(["a", "b", "c"].map(str::to_owned)), 1.0),
    ];
    let layout = Layout::new(&figure(6, panels));
    let ranges: Vec<_> = layout.cells.iter().map(|cell| cell.x.range()).collect();
    let expected = [(1.0, 9.0), (1.0, 9.0), (1.0, 3.0), (0.0, 2.0), (2.0, 4.0), (-0.5, 2.5)];
    assert_eq!(ranges, expected.map(|(low, high)| Range { low, high }));
}

#[test]
fn markers_and_bars_at_the_ends_are_within_the_plot() {
    let points = [(0.0, 1.0), (5.0, 2.0), (10.0, 3.0)];
    let of_style =
        |style| Panel { x_label: format!("{style:?}"), ..panel("", "", vec![PlotLine { style, ..line("a", points) }]) };
    let panels = [Style::Stroke, Style::Markers(Marker::Filled), Style::Bars].map(of_style);
    let ranges: Vec<_> = Layout::new(&figure(3, panels.into())).cells.iter().map(|cell| cell.x.range()).collect();
    assert_eq!(ranges, [(0.0, 10.0), (-0.4, 10.4), (-2.5, 12.5)].map(|(low, high)| Range { low, high }));
}

#[test]
fn logarithmic_range_is_of_what_is_above_zero() {
    let points = [(0.0, 5.0), (1.0, 0.0), (2.0, -3.0), (3.0, 1_000.0), (4.0, 10.0)];
    let mut logarithmic = panel("", "slowdown", vec![line("a", points)]);
    logarithmic.y_scale = Scale::Log;
    let low = 5_f64.log10();
    let air = 0.05 * (3.0 - low);
    let figure_of = |panel: &Panel| figure(1, vec![panel.clone()]);
    let Range { low: from, high: to } = Layout::new(&figure_of(&logarithmic)).cells[0].y.range();
    assert!((from - (low - air)).abs() < 1e-9 && (to - (3.0 + air)).abs() < 1e-9, "from {from} to {to}");
    assert_eq!(strokes(&figure_of(&logarithmic), "#0072B2").len(), 1, "interrupted, and the first value is alone");
    logarithmic.lines[0].style = Style::Bars;
    let layout = Layout::new(&figure_of(&logarithmic));
    assert_eq!(layout.cells[0].y.range().low, 0.0, "so that the least bar is seen");
    for nothing in [vec![], vec![line("none above 0", [(0.0, -1.0), (1.0, 0.0)])]] {
        assert_readable(&figure_of(&Panel { lines: nothing, y_scale: Scale::Log, ..Panel::default() }));
    }
}

#[test]
#[should_panic(expected = "a range from -inf")]
fn logarithmic_range_from_zero_is_refused() {
    let panel = Panel { y_scale: Scale::Log, y_range: Some((0.0, 10.0)), ..panel("", "", vec![]) };
    let _ = figure(1, vec![panel]).to_svg();
}

#[test]
fn line_is_cut_where_the_range_ends() {
    let mut zoomed = panel("", "", vec![line("a", [(0.0, 0.0), (4.0, 8.0), (6.0, 8.0), (10.0, 0.0), (3.0, 0.0)])]);
    (zoomed.x_range, zoomed.y_range) = (Some((2.0, 8.0)), Some((0.0, 10.0)));
    let figure = figure(1, vec![zoomed]);
    let cell = &Layout::new(&figure).cells[0];
    let drawn = strokes(&figure, "#0072B2");
    let at = |x: f64, y: f64| {
        let (left, top) = (f64::from(cell.plot_at.x), f64::from(cell.plot_at.y));
        (left + f64::from(cell.plot.width) * (x - 2.0) / 6.0, top + f64::from(cell.plot.height) * (1.0 - y / 10.0))
    };
    let wanted = [vec![at(2.0, 4.0), at(4.0, 8.0), at(6.0, 8.0), at(8.0, 4.0)], vec![at(8.0, 0.0), at(3.0, 0.0)]];
    assert_eq!(drawn.len(), 2, "{drawn:?}");
    for (drawn, wanted) in drawn.iter().zip(&wanted) {
        assert_eq!(drawn.len(), wanted.len());
        for (one, other) in drawn.iter().zip(wanted) {
            assert!((one.0 - other.0).abs() <= 2.0 && (one.1 - other.1).abs() <= 2.0, "{one:?} is not {other:?}");
        }
    }
}

#[test]
fn axis_is_labelled_unless_the_panel_below_has_the_same() {
    let over =
        |x_label: &str| Panel { x_label: x_label.into(), ..panel("", "", vec![line("a", [(0.0, 1.0), (7.0, 1.0)])]) };
    let zoomed = Panel { x_range: Some((0.0, 1.0)), ..over("time (ms)") };
    // Two columns, read downwards: the same, another below; another range below, none below.
    let panels = vec![over("time (ms)"), over("time (ms)"), over("time (ms)"), zoomed, over("load"), Panel::default()];
    let figure = figure(2, panels);
    let across = XLabels::Across;
    let shown: Vec<_> = Layout::new(&figure).cells[..5].iter().map(|cell| cell.x_labels).collect();
    assert_eq!(shown, [XLabels::Hidden, across, across, across, across]);
    with_svg(&figure, |svg| {
        let labels = labels(svg);
        let count = |label: &str| labels.iter().filter(|text| *text == label).count();
        assert_eq!((count("time (ms)"), count("load")), (3, 1), "nothing is drawn for a default panel");
    });
    assert_readable(&figure);
}

#[test]
fn category_names_can_be_read() {
    let short = || ["PFC", "CBFC", "buffer GFC", "time GFC"].map(str::to_owned);
    let long = |n: usize| (0..n).map(|i| format!("workload number {i}, websearch at 80 % load"));
    for (names, wanted) in [
        (short().to_vec(), XLabels::Across),
        (long(2).collect(), XLabels::Upright),
        (long(30).collect(), XLabels::Upright),
        ((0..12).map(|i| i.to_string()).collect(), XLabels::Across),
        (vec![], XLabels::Across),
    ] {
        let panels =
            vec![barred(names.clone(), 3), barred(short(), 2), panel("", "queue (KB)", vec![]), barred(names, 1)];
        let figure = figure(2, panels);
        assert_eq!(Layout::new(&figure).cells[0].x_labels, wanted);
        assert_readable(&figure);
    }
    with_svg(&figure(1, vec![barred(long(2), 1)]), |svg| {
        let labels = labels(svg);
        assert!(labels.contains(&"workload number 1, websearch at 80 % load".to_owned()), "{labels:?}");
    });
}

#[test]
fn vertical_marks_are_labelled_above_the_plot() {
    let upright = |label: &str, value: f64| PlotMark { orientation: Orientation::Vertical, ..mark(label, value) };
    let mut marked = panel("a title", "queue (KB)", vec![line("queue", [(0.0, 1.0), (10.0, 2.0)])]);
    marked.marks = (0..5).map(|i| upright(&format!("failure number {i}"), 4.0 + 0.1 * f64::from(i))).collect();
    marked.marks.extend([upright("start", 0.0), upright("the very end", 10.0), mark("Xoff", 1.5)]);
    let crowded = figure(2, vec![marked.clone(), panel("another", "queue (KB)", vec![]), marked.clone()]);
    assert_readable(&crowded);
    let rows: Vec<_> = Layout::new(&crowded).cells[0].vertical_marks.iter().map(|mark| mark.row).collect();
    assert_eq!(rows, [0, 0, 1, 2, 3, 4, 0], "none over another; the first and the last are apart from all");
    marked.x_range = Some((0.0, 3.0));
    with_svg(&figure(1, vec![marked]), |svg| {
        let labels = labels(svg);
        assert!(labels.contains(&"start".to_owned()) && !labels.contains(&"the very end".to_owned()), "{labels:?}");
    });
}
