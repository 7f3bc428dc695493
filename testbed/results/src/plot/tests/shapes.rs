//! Strokes, markers, bars and intervals, in panels and in the legend.

use super::*;

const BLUE: &str = "#0072B2";
const VERMILION: &str = "#D55E00";
const NEUTRAL: &str = "#222222";

fn styled(name: &str, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> PlotLine {
    PlotLine { style, ..line(name, points) }
}

fn categories(names: &[&str]) -> XAxis {
    XAxis::Categories(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Two controls by three workloads, with a paper's values of two of these.
fn comparison() -> Panel {
    let interval = |x: f64, low: f64, high: f64| ConfidenceInterval { x, low, high };
    let mut pfc = styled("PFC", Style::Bars, [(0.0, 4.0), (1.0, 6.0), (2.0, 3.0)]);
    pfc.intervals = vec![interval(0.0, 3.5, 4.5), interval(1.0, 5.0, 7.0), interval(2.0, 2.9, 3.1)];
    let gfc = styled("GFC", Style::Bars, [(0.0, 8.0), (1.0, 9.0), (2.0, 9.5)]);
    let paper = |of: &str, points: [(f64, f64); 2]| PlotLine {
        compared_with: Some(of.into()),
        ..styled("as the paper states", Style::Markers(Marker::Hollow), points)
    };
    let stated = [paper("PFC", [(0.0, 4.2), (1.0, 5.5)]), paper("GFC", [(0.0, 8.4), (1.0, 9.0)])];
    Panel {
        x_label: "workload".into(),
        x_axis: categories(&["websearch", "storage", "mining"]),
        ..panel("goodput", "goodput (Gb/s)", [pfc, gfc].into_iter().chain(stated).collect())
    }
}

/// Boxes of this colour outside the legend: left, top, right and bottom.
fn boxes(figure: &Figure, color: &str) -> Vec<(f64, f64, f64, f64)> {
    with_svg(figure, |svg| {
        let drawn = elements(svg, "rect").filter(|node| node.attribute("fill") == Some(color));
        let sides = drawn.map(|node| {
            let (x, y) = (number(node, "x"), number(node, "y"));
            (x, y, x + number(node, "width"), y + number(node, "height"))
        });
        sides.skip(1).collect()
    })
}

/// Middles of the circles with this attribute.
fn circles(figure: &Figure, attribute: &'static str, color: &str) -> Vec<(f64, f64)> {
    with_svg(figure, |svg| {
        let drawn = elements(svg, "circle").filter(|node| node.attribute(attribute) == Some(color));
        drawn.map(|node| (number(node, "cx"), number(node, "cy"))).collect()
    })
}

fn stroke_count(figure: &Figure, color: &str) -> usize {
    with_svg(figure, |svg| elements(svg, "polyline").filter(|node| node.attribute("stroke") == Some(color)).count())
}

fn height(cell: &cell::Cell, y: f64) -> f64 {
    f64::from(cell.plot_at.y) + f64::from(cell.plot.height) * (1.0 - cell.y.part(y))
}

#[test]
fn bars_stand_side_by_side_from_zero_to_their_values() {
    let figure = figure(1, vec![comparison()]);
    assert_readable(&figure);
    let cell = &Layout::new(&figure).cells[0];
    let (pfc, gfc) = (boxes(&figure, BLUE), boxes(&figure, VERMILION));
    assert_eq!((pfc.len(), gfc.len()), (3, 3));
    for (i, ((one, other), values)) in pfc.iter().zip(&gfc).zip([(4.0, 8.0), (6.0, 9.0), (3.0, 9.5)]).enumerate() {
        for (bar, value) in [(one, values.0), (other, values.1)] {
            assert!((bar.1 - height(cell, value)).abs() <= 2.0, "bar {i} ends at {}", bar.1);
            assert!((bar.3 - height(cell, 0.0)).abs() <= 2.0, "bar {i} starts at {}", bar.3);
        }
        let middle = f64::from(cell.plot_at.x) + cell.x.part(i as f64) * f64::from(cell.plot.width);
        assert!(one.2 < middle && middle < other.0, "{one:?} {middle} {other:?}");
        assert!((middle - one.0 - (other.2 - middle)).abs() <= 4.0, "the group is centred");
    }
    assert!(pfc[1].0 - gfc[0].2 > 5.0 * (gfc[0].0 - pfc[0].2), "groups are apart");
}

#[test]
fn values_to_compare_with_stand_on_their_bars() {
    let figure = figure(1, vec![comparison()]);
    let cell = &Layout::new(&figure).cells[0];
    let rings = circles(&figure, "stroke", NEUTRAL);
    assert_eq!(rings.len(), 5, "four, and the legend's");
    let bars = [boxes(&figure, BLUE), boxes(&figure, VERMILION)].map(|bars| bars[..2].to_vec()).concat();
    for ((ring, bar), value) in rings[1..].iter().zip(&bars).zip([4.2, 5.5, 8.4, 9.0]) {
        assert!((ring.0 - (bar.0 + bar.2) / 2.0).abs() <= 3.0, "{ring:?} is not on {bar:?}");
        assert!((ring.1 - height(cell, value)).abs() <= 2.0);
    }
    assert_eq!(circles(&figure, "fill", "#FFFFFF").len(), 5, "rings are white within, so that bars don't hide them");
}

#[test]
fn values_to_compare_with_have_the_colour_of_lines() {
    let points = [(1.0, 1.0), (2.0, 4.0)];
    let stated = |name: &str, of: &str| PlotLine {
        compared_with: Some(of.into()),
        ..styled(name, Style::Markers(Marker::Hollow), points)
    };
    let measured = |name: &str| styled(name, Style::StrokeAndMarkers(Marker::Filled), points);
    let separate = vec![measured("a"), measured("b"), stated("a, stated", "a"), stated("b, stated", "b")];
    let separate = figure(1, vec![panel("", "", separate)]);
    assert_eq!(circles(&separate, "fill", BLUE).len(), 3, "two, and the legend's");
    assert_eq!(circles(&separate, "stroke", BLUE).len(), 3);
    assert_eq!(circles(&separate, "stroke", VERMILION).len(), 3);
    assert_eq!((stroke_count(&separate, BLUE), stroke_count(&separate, VERMILION)), (2, 2), "rings have no stroke");
    let common = vec![measured("a"), measured("b"), stated("stated", "a"), stated("stated", "b")];
    let common = figure(1, vec![panel("", "", common)]);
    assert_eq!(circles(&common, "stroke", VERMILION).len(), 2);
    assert_eq!(circles(&common, "stroke", NEUTRAL).len(), 1, "one entry for both");
    assert_eq!(with_svg(&common, labels).iter().filter(|label| *label == "stated").count(), 1);
    let alone = figure(1, vec![panel("", "", vec![stated("stated", "what is not there")])]);
    assert_eq!(circles(&alone, "stroke", BLUE).len(), 3);
}

#[test]
fn interval_has_a_cap_at_each_end_within_the_plot() {
    let interval = |x: f64, low: f64, high: f64| ConfidenceInterval { x, low, high };
    let marked = |interval: ConfidenceInterval, y_scale: Scale| {
        let mut line = styled("a", Style::Markers(Marker::Filled), [(1.0, 5.0)]);
        line.intervals = vec![interval];
        let y_range = Some((1.0, 10.0));
        let panel = Panel { y_range, y_scale, x_range: Some((0.0, 2.0)), ..panel("", "", vec![line]) };
        stroke_count(&figure(1, vec![panel]), BLUE)
    };
    let linear = |interval| marked(interval, Scale::Linear);
    assert_eq!(linear(interval(1.0, 4.0, 6.0)), 3, "a line and two caps");
    assert_eq!(linear(interval(1.0, -4.0, 6.0)), 2);
    assert_eq!(linear(interval(1.0, -4.0, 60.0)), 1);
    assert_eq!(linear(interval(1.0, 11.0, 12.0)), 0);
    assert_eq!(linear(interval(3.0, 4.0, 6.0)), 0);
    assert_eq!(linear(interval(1.0, f64::NAN, 6.0)) + linear(interval(1.0, 4.0, f64::NAN)), 0);
    assert_eq!(marked(interval(1.0, -1.0, 6.0), Scale::Log), 2, "down to the edge");
    assert_eq!(marked(interval(1.0, -1.0, 0.0), Scale::Log), 0);
}

#[test]
fn intervals_count_for_the_range() {
    let mut line = styled("a", Style::Markers(Marker::Filled), [(1.0, 5.0)]);
    line.intervals = vec![ConfidenceInterval { x: 1.0, low: -1.0, high: 9.0 }];
    let layout = Layout::new(&figure(1, vec![panel("", "", vec![line])]));
    assert_eq!(layout.cells[0].y.range(), Range { low: -1.5, high: 9.5 });
}

#[test]
fn bars_on_a_logarithmic_axis_start_at_its_end() {
    let bars = styled("a", Style::Bars, [(0.0, 20.0), (1.0, 0.0), (2.0, 3_000.0)]);
    let x_axis = categories(&["a", "b", "c"]);
    let figure = figure(1, vec![Panel { x_axis, y_scale: Scale::Log, ..panel("", "", vec![bars]) }]);
    let cell = &Layout::new(&figure).cells[0];
    let drawn = boxes(&figure, BLUE);
    assert_eq!(drawn.len(), 2, "none for 0");
    assert_eq!(cell.y.range().low, 1.0);
    assert!((drawn[0].3 - height(cell, 1.0)).abs() <= 2.0);
    assert!((drawn[0].1 - height(cell, 20_f64.log10())).abs() <= 2.0);
}

#[test]
fn colours_that_come_again_are_told_apart() {
    let of_style = |style| {
        let lines = (0..8).map(|i| styled(&format!("control {i}"), style, [(1.0, f64::from(i + 1)), (2.0, 3.0)]));
        figure(1, vec![panel("", "", lines.collect())])
    };
    let bars = of_style(Style::Bars);
    assert_eq!(boxes(&bars, BLUE).len(), 2);
    assert_eq!(boxes(&bars, "#AAD0E5").len(), 2, "pale");
    let marked = of_style(Style::Markers(Marker::Filled));
    assert_eq!((circles(&marked, "fill", BLUE).len(), boxes(&marked, BLUE).len()), (3, 2), "squares");
    [bars, marked].iter().for_each(assert_readable);
}

#[test]
fn bars_can_be_seen_however_many_there_are() {
    let names: Vec<String> = (0..20).map(|i| format!("{i}")).collect();
    let bar = |i: i32| styled(&format!("control {i}"), Style::Bars, (0..20).map(|x| (f64::from(x), 1.0)));
    let many = Panel { x_axis: XAxis::Categories(names), ..panel("", "", (0..6).map(bar).collect()) };
    let figure = figure(1, vec![many]);
    let bars = boxes(&figure, BLUE);
    assert_eq!(bars.len(), 20);
    assert!(bars.iter().all(|bar| bar.2 - bar.0 >= f64::from(px(5))), "{bars:?}");
    assert_readable(&figure);
}

#[test]
fn figure_of_all_kinds_can_be_read() {
    assert_readable(&all_kinds());
}

/// A parameter, a distribution and categories, with a paper's values.
fn all_kinds() -> Figure {
    let fan_in = || [2, 4, 8, 16, 32, 64, 128].map(f64::from);
    let measured = |name: &str, delay: f64| PlotLine {
        intervals: fan_in().map(|x| ConfidenceInterval { x, low: delay * x * 0.8, high: delay * x * 1.3 }).to_vec(),
        ..styled(name, Style::StrokeAndMarkers(Marker::Filled), fan_in().map(|x| (x, delay * x)))
    };
    let stated = |of: &str, delay: f64| PlotLine {
        compared_with: Some(of.into()),
        ..styled("as the paper states", Style::Markers(Marker::Hollow), [4.0, 16.0, 64.0].map(|x| (x, delay * x)))
    };
    let parameter = Panel {
        x_label: "fan-in N".into(),
        x_axis: XAxis::Numbers(Scale::Log),
        y_scale: Scale::Log,
        ..panel(
            "delay",
            "delay (µs)",
            vec![measured("PFC", 30.0), measured("GFC", 4.0), stated("PFC", 33.0), stated("GFC", 4.4)],
        )
    };
    let distribution = |name: &str, spread: f64| {
        let step = move |i: i32| (1.0 + spread * (f64::from(i) / 100.0).powi(6), f64::from(i) / 100.0);
        line(name, (0..=100).map(step))
    };
    let distribution = Panel {
        x_label: "slowdown".into(),
        x_axis: XAxis::Numbers(Scale::Log),
        marks: vec![PlotMark { orientation: Orientation::Vertical, ..mark("target", 5.0) }, mark("median", 0.5)],
        ..panel("slowdown", "part of flows", vec![distribution("PFC", 300.0), distribution("GFC", 20.0)])
    };
    figure(3, vec![parameter, distribution, comparison()])
}

#[test]
fn intervals_that_would_cover_each_other_are_side_by_side() {
    let line = |name: &str, low: f64| PlotLine {
        intervals: [1.0, 2.0].map(|x| ConfidenceInterval { x, low, high: low + 2.0 }).to_vec(),
        ..styled(name, Style::StrokeAndMarkers(Marker::Filled), [(1.0, low + 1.0), (2.0, low + 1.0)])
    };
    let places = |lines: Vec<PlotLine>, separates_intervals: bool| {
        let figure = figure(1, vec![Panel { separates_intervals, ..panel("", "delay", lines) }]);
        let mut places = Vec::new();
        with_svg(&figure, |svg| {
            let circles = svg.descendants().filter(|node| node.has_tag_name("circle"));
            places = circles.map(|node| node.attribute("cx").unwrap().parse::<i32>().unwrap()).collect();
        });
        places
    };
    let together = places(vec![line("DT", 1.0), line("SPFC", 2.0)], false);
    let apart = places(vec![line("DT", 1.0), line("SPFC", 2.0)], true);
    // Two lines with two markers each, and one of each in the legend.
    assert_eq!(together.len(), 6, "{together:?}");
    let in_plot = |places: &[i32]| places[2..].to_vec();
    let [first, second, third, fourth] = in_plot(&apart)[..] else { panic!("{apart:?}") };
    assert!(third - first == fourth - second && (third - first - px(7)).abs() <= 1, "{apart:?}");
    let alone = places(vec![line("DT", 1.0), line("SPFC", 9.0)], true);
    let [first, _, third, _] = in_plot(&alone)[..] else { panic!("{alone:?}") };
    assert_eq!(first, third, "intervals that leave each other room stay in their place");
}

#[test]
fn a_figure_for_a_paper_has_its_width_and_a_title_in_lines() {
    let title = "Slowdown of messages under two buffer policies, over the load of the fabric".to_owned();
    let of = |width_pt| Figure {
        title: title.clone(),
        width_pt,
        ..figure(1, vec![panel("", "delay", vec![line("DT", [(0.0, 1.0)])])])
    };
    let svg = of(Some(240)).to_svg().unwrap();
    assert!(svg.starts_with("<svg width=\"240pt\" height=\""), "{}", &svg[..80]);
    let view_width =
        |svg: &str| svg.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse::<i32>().unwrap();
    let (narrow, wide) = (view_width(&svg), view_width(&of(None).to_svg().unwrap()));
    assert!(narrow < wide, "{narrow}, {wide}");
    // 240 pt are 320 px: text of 14 px is 8 pt or more.
    let shown_pt = f64::from(TICK) * 240.0 / (f64::from(narrow) / f64::from(SCALE));
    assert!(shown_pt > 8.0, "{shown_pt} pt");
    with_svg(&of(Some(240)), |svg| {
        let lines = labels(svg).iter().filter(|label| title.contains(label.as_str()) && label.contains(' ')).count();
        assert!(lines > 1, "{lines} lines");
    });
}

#[test]
fn a_note_is_below_the_panels_and_part_of_the_height() {
    let of = |note: &str| Figure {
        note: note.to_owned(),
        width_pt: Some(240),
        ..figure(1, vec![panel("", "delay", vec![line("DT", [(0.0, 1.0)])])])
    };
    let note = "means over 3 seeds, and percentiles of the messages of all of them";
    let lowest = |figure: &Figure, text: &str| {
        let of_text =
            |node: &Node<'_, '_>| node.text().is_some_and(|it| !it.trim().is_empty() && text.contains(it.trim()));
        with_svg(figure, |svg| elements(svg, "text").filter(of_text).map(|node| number(node, "y")).fold(0.0, f64::max))
    };
    assert!(lowest(&of(note), note) > lowest(&of(note), "time (ms)"));
    let [without, with] = ["", note].map(|note| of(note).height_in_points().unwrap());
    assert!(without < with, "{without}, {with}");
    let svg = of(note).to_svg().unwrap();
    assert!(svg.starts_with(&format!("<svg width=\"240pt\" height=\"{with:.1}pt\"")), "{with}, {}", &svg[..80]);
}

#[test]
fn values_below_0_have_a_line_at_0() {
    // Lines of the whole width of the plot, at the level of 0.
    let lines_at_0 = |low: f64, high: f64| {
        let figure = figure(1, vec![panel("", "difference", vec![line("DT", [(0.0, low), (1.0, high)])])]);
        let layout = Layout::new(&figure);
        let (plot, range) = (&layout.cells[0], layout.cells[0].y.range());
        let level = f64::from(plot.plot_at.y) + f64::from(plot.plot.height) * range.high / range.length();
        with_svg(&figure, |svg| {
            let is_grey = |node: &Node<'_, '_>| node.attribute("stroke") == Some("#555555");
            let at_0 = |node: &Node<'_, '_>| {
                let points = node.attribute("points").unwrap_or_default().split_whitespace();
                let points: Vec<(f64, f64)> = points
                    .map(|point| point.split_once(',').unwrap())
                    .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                    .collect();
                points.len() == 2
                    && points.iter().all(|(_, y)| (y - level).abs() <= 2.0)
                    && (points[1].0 - points[0].0).abs() > 0.9 * f64::from(plot.plot.width)
            };
            elements(svg, "polyline").filter(|node| is_grey(node) && at_0(node)).count()
        })
    };
    assert_eq!([lines_at_0(-5.0, 3.0), lines_at_0(-5.0, -3.0)], [1, 1]);
    assert_eq!(lines_at_0(1.0, 3.0), 1, "the axis itself");
}
