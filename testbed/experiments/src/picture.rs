//! SVG drawings: points, and files of a figure as SVG, with PNG and PDF rendered from it.
//!
//! Rendering is here instead of in `weir-results`, so that no feature changes that crate: virtual time depends on it,
//! and it is compiled once for every command.

use std::fs;
use std::path::{Path, PathBuf};

use weir_results::plot::{PlotError, write_file};

#[derive(Clone, Copy, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// Writes an SVG as `BASE.svg`, and as PNG and PDF if these are built in, in a folder that is made if missing; returns the files. Nothing is
/// written if the SVG can't be rendered.
pub(crate) fn write_all(svg: &str, base: &Path) -> Result<Vec<PathBuf>, PlotError> {
    #[cfg(any(feature = "png", feature = "pdf"))]
    let tree = tree(svg)?;
    let files = [
        ("svg", svg.as_bytes().to_vec()),
        #[cfg(feature = "png")]
        ("png", png(&tree)?),
        #[cfg(feature = "pdf")]
        ("pdf", pdf(&tree)?),
    ];
    if let Some(folder) = base.parent() {
        fs::create_dir_all(folder).map_err(|source| PlotError::Io { path: folder.to_owned(), source })?;
    }
    let write = |(ending, bytes): (&str, Vec<u8>)| {
        // A name may contain dots.
        let path = PathBuf::from(format!("{}.{ending}", base.display()));
        write_file(&path, &bytes).map(|()| path)
    };
    files.into_iter().map(write).collect()
}

/// Parses an SVG, with the font of figures for its text.
#[cfg(any(feature = "png", feature = "pdf"))]
fn tree(svg: &str) -> Result<usvg::Tree, PlotError> {
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_font_data(dejavu::sans::regular().to_vec());
    options.fontdb_mut().set_sans_serif_family("DejaVu Sans");
    usvg::Tree::from_str(svg, &options).map_err(|error| draw_error(error.to_string()))
}

#[cfg(any(feature = "png", feature = "pdf"))]
fn draw_error(reason: String) -> PlotError {
    PlotError::Draw { reason }
}

/// Renders an SVG as a PDF page of its size. Text remains text.
#[cfg(feature = "pdf")]
fn pdf(tree: &usvg::Tree) -> Result<Vec<u8>, PlotError> {
    // Browsers' resolution: 96 of the SVG's pixels to an inch.
    let (conversion, page) = (svg2pdf::ConversionOptions::default(), svg2pdf::PageOptions { dpi: 96.0 });
    svg2pdf::to_pdf(tree, conversion, page).map_err(|error| draw_error(error.to_string()))
}

/// Writes any SVG as PNG, at two pixels per SVG pixel in each direction.
#[cfg(feature = "png")]
pub(crate) fn write_svg_as_png(svg: &str, path: &Path) -> Result<(), PlotError> {
    write_file(path, &png(&tree(svg)?)?)
}

#[cfg(feature = "png")]
fn png(tree: &usvg::Tree) -> Result<Vec<u8>, PlotError> {
    use resvg::tiny_skia;

    const ZOOM: f32 = 2.0;
    let (width, height) = (tree.size().width() * ZOOM, tree.size().height() * ZOOM);
    let pixmap = tiny_skia::Pixmap::new(width as u32, height as u32);
    let mut pixmap = pixmap.ok_or_else(|| draw_error(format!("{width} x {height} pixels are too many")))?;
    resvg::render(tree, tiny_skia::Transform::from_scale(ZOOM, ZOOM), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| draw_error(error.to_string()))
}

#[cfg(test)]
mod tests {
    use weir_results::plot::{Figure, Panel, PlotLine};

    use super::*;

    fn svg() -> String {
        let line =
            PlotLine { name: "queue".into(), points: vec![(0.0, 0.0), (1.0, 5.0), (2.0, 3.0)], ..PlotLine::default() };
        let panel = Panel {
            title: "PFC".into(),
            x_label: "time (ms)".into(),
            y_label: "queue (KB)".into(),
            lines: vec![line],
            ..Panel::default()
        };
        Figure { title: "A figure".into(), columns: 1, panels: vec![panel], ..Figure::default() }.to_svg().unwrap()
    }

    #[test]
    fn all_written_files_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        let written = write_all(&svg(), &dir.path().join("load-0.5")).unwrap();
        let mut there: Vec<PathBuf> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        there.sort_by_key(|path| written.iter().position(|one| one == path));
        assert_eq!(there, written);
        assert!(written[0].ends_with("load-0.5.svg"), "{written:?}");
    }

    #[cfg(feature = "png")]
    #[test]
    fn a_picture_that_cannot_be_drawn_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let failed = write_all(&svg().replace("A figure", "A\u{1}"), &dir.path().join("new/figure"));
        assert!(matches!(failed, Err(PlotError::Draw { .. })), "{failed:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[cfg(feature = "pdf")]
    #[test]
    fn pdf_is_a_page_of_the_svgs_size_with_its_text_as_text() {
        let pdf = pdf(&tree(&svg()).unwrap()).unwrap();
        let pdf = String::from_utf8_lossy(&pdf).into_owned();
        assert!(pdf.starts_with("%PDF-1.") && pdf.trim_end().ends_with("%%EOF"), "{}", pdf.len());
        // PDF points are 72 to an inch, and SVG pixels 96.
        let points = |attribute: &str| f64::from(shown(&svg(), attribute)) * 72.0 / 96.0;
        let page = pdf.split("/MediaBox [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let page: Vec<f64> = page.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let close = |one: f64, other: f64| (one - other).abs() < 0.01;
        assert!(close(page[2], points("width")) && close(page[3], points("height")), "{page:?}");
        assert!(pdf.contains("DejaVuSans"), "the font of its text is in it");
    }

    #[cfg(feature = "png")]
    #[test]
    fn png_shows_the_svg() {
        use resvg::tiny_skia;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figure.png");
        let svg = svg();
        write_svg_as_png(&svg, &path).unwrap();
        let picture = tiny_skia::Pixmap::load_png(&path).unwrap();
        assert_eq!((picture.width(), picture.height()), (2 * shown(&svg, "width"), 2 * shown(&svg, "height")));
        let is_blue =
            |pixel: &tiny_skia::PremultipliedColorU8| (pixel.red(), pixel.green(), pixel.blue()) == (0, 0x72, 0xb2);
        assert!(picture.pixels().iter().filter(|pixel| is_blue(pixel)).count() > 100, "the line is there");
        // The title is the text at the top: without the font there would be none.
        let is_dark = |pixel: &&tiny_skia::PremultipliedColorU8| pixel.red() < 0x40 && pixel.blue() < 0x40;
        let title_rows = &picture.pixels()[..picture.width() as usize * 80];
        assert!(title_rows.iter().filter(is_dark).count() > 100, "the title is there");
    }

    /// Length attribute of the SVG's root element.
    #[cfg(any(feature = "png", feature = "pdf"))]
    fn shown(svg: &str, attribute: &str) -> u32 {
        let (_, rest) = svg.split_once(&format!(" {attribute}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    }
}
