//! Width of a text.

use std::sync::Once;

use plotters::style::{FontStyle, IntoFont, register_font};

use super::{FONT, px};

/// Returns the width of a text in DejaVu Sans, a wide font, in [`px`].
pub(super) fn text_width(text: &str, size: i32) -> i32 {
    register_fonts();
    let ((left, _), (right, _)) = (FONT, px(size)).into_font().layout_box(text).expect("the font is registered");
    right - left
}

fn register_fonts() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let is_font = register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok();
        assert!(is_font, "the built-in font is a font");
    });
}
