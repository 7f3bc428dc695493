//! Notebooks as Markdown, with their stored outputs.

use std::fmt::Write;

use serde_json::Value;

/// Converts a notebook to Markdown: cells of text, cells of code, and texts and pictures that these put out.
///
/// # Errors
/// The text is no notebook, or a cell has failed.
pub(super) fn markdown(notebook: &str) -> Result<String, String> {
    let notebook: Value = serde_json::from_str(notebook).map_err(|error| format!("no notebook: {error}"))?;
    let cells = notebook["cells"].as_array().ok_or("no notebook: it has no `cells`")?;
    let mut page = String::new();
    for (n, cell) in cells.iter().enumerate() {
        let source = text(&cell["source"]);
        if cell["cell_type"] == "markdown" {
            page += &format!("{source}\n\n");
            continue;
        }
        page += &fenced("python", &source);
        for output in cell["outputs"].as_array().into_iter().flatten() {
            if output["output_type"] == "error" {
                return Err(format!("cell {} has failed: {}", n + 1, text(&output["evalue"])));
            }
            let data = &output["data"];
            let png = text(&data["image/png"]).replace('\n', "");
            if !png.is_empty() {
                let _ = write!(page, "![Figure](data:image/png;base64,{png})\n\n");
            } else {
                let printed = if data.is_null() { &output["text"] } else { &data["text/plain"] };
                page += &fenced("text", &text(printed));
            }
        }
    }
    Ok(page)
}

/// A text, which notebooks have as lines or whole.
fn text(of: &Value) -> String {
    match of {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

fn fenced(language: &str, text: &str) -> String {
    format!("````{language}\n{}\n````\n\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_cells_and_their_outputs() {
        let notebook = r##"{"cells": [
            {"cell_type": "markdown", "source": ["# A figure\n", "of mine"]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [
                {"output_type": "stream", "text": ["said\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
                {"output_type": "display_data", "data": {"image/png": ["aG\n", "k=\n"], "text/plain": ["<Figure>"]}}]}]}"##;
        assert_eq!(
            markdown(notebook).unwrap(),
            "# A figure\nof mine\n\n````python\n1 + 1\n````\n\n````text\nsaid\n````\n\n````text\n2\n````\n\n![Figure](data:image/png;base64,aGk=)\n\n"
        );
        let failed = r#"{"cells": [{"cell_type": "code", "source": "f()", "outputs": [{"output_type": "error", "evalue": "no f"}]}]}"#;
        assert_eq!(markdown(failed).unwrap_err(), "cell 1 has failed: no f");
        assert!(markdown("{}").unwrap_err().contains("no `cells`") && markdown("").is_err());
    }
}
