//! Figures as PNG, drawn from their SVG.
//!
//! Here and not beside the SVG, so that no feature changes `weir-results`: virtual time stands on it, and is compiled once for every
//! command.

use std::path::Path;

use resvg::{tiny_skia, usvg};
use weir_results::plot::{PlotError, write_file};

/// Writes any SVG as PNG, with two pixels each way for one of its own. Its text is set in the font of figures.
pub(crate) fn write_svg_as_png(svg: &str, path: &Path) -> Result<(), PlotError> {
    const ZOOM: f32 = 2.0;
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_font_data(dejavu::sans::regular().to_vec());
    options.fontdb_mut().set_sans_serif_family("DejaVu Sans");
    let draw_error = |reason: String| PlotError::Draw { reason };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| draw_error(error.to_string()))?;
    let (width, height) = (tree.size().width() * ZOOM, tree.size().height() * ZOOM);
    let pixmap = tiny_skia::Pixmap::new(width as u32, height as u32);
    let mut pixmap = pixmap.ok_or_else(|| draw_error(format!("{width} x {height} pixels are too many")))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(ZOOM, ZOOM), &mut pixmap.as_mut());
    write_file(path, &pixmap.encode_png().map_err(|error| draw_error(error.to_string()))?)
}

#[cfg(test)]
mod tests {
    use weir_results::plot::{Figure, Line, Panel};

    use super::*;

    #[test]
    fn png_shows_the_svg() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figure.png");
        let line = Line { name: "queue".into(), points: vec![(0.0, 0.0), (1.0, 5.0), (2.0, 3.0)], ..Line::default() };
        let panel = Panel {
            title: "PFC".into(),
            x_label: "time (ms)".into(),
            y_label: "queue (KB)".into(),
            lines: vec![line],
            ..Panel::default()
        };
        let svg = Figure { title: "A figure".into(), columns: 1, panels: vec![panel] }.to_svg().unwrap();
        write_svg_as_png(&svg, &path).unwrap();
        let picture = tiny_skia::Pixmap::load_png(&path).unwrap();
        assert_eq!((picture.width(), picture.height()), (2 * shown(&svg, "width"), 2 * shown(&svg, "height")));
        let is_blue =
            |pixel: &tiny_skia::PremultipliedColorU8| (pixel.red(), pixel.green(), pixel.blue()) == (0, 0x72, 0xb2);
        assert!(picture.pixels().iter().filter(|pixel| is_blue(pixel)).count() > 100, "the line is there");
        // The title is the text at the top: with the font missing there would be none.
        let is_dark = |pixel: &&tiny_skia::PremultipliedColorU8| pixel.red() < 0x40 && pixel.blue() < 0x40;
        let title_rows = &picture.pixels()[..picture.width() as usize * 80];
        assert!(title_rows.iter().filter(is_dark).count() > 100, "the title is there");
    }

    /// A length of the document's own element.
    fn shown(svg: &str, attribute: &str) -> u32 {
        let (_, rest) = svg.split_once(&format!(" {attribute}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    }
}
