//! Escaping of text for HTML.

/// Escapes a text for use between tags, or in an attribute's quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // Control characters, which HTML forbids, and overrides of the text direction.
            '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                html.push('\u{fffd}');
            }
            c => html.push(c),
        }
    }
    html
}

/// Escapes JSON for a script element: no `<` can end the element, or begin a comment.
pub(super) fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_a_tag_or_leaves_its_quotes() {
        assert_eq!(escaped("<a href='x' title=\"y\">&"), "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;");
        assert_eq!(escaped("a\u{0}b\u{202e}c\td"), "a\u{fffd}b\u{fffd}c\td");
    }

    #[test]
    fn json_can_not_end_its_script() {
        let json = serde_json::to_string("</script><!--").unwrap();
        assert_eq!(in_script(&json), "\"\\u003c/script>\\u003c!--\"");
        assert_eq!(serde_json::from_str::<String>(&in_script(&json)).unwrap(), "</script><!--");
    }
}
