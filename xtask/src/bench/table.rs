//! The table of ratios, as Markdown, so that the output can be pasted into a document.

use serde_json::Value;

const HEAD: [&str; 7] = ["row", "what", "product", "baseline", "ratio", "aim", "met"];

/// Renders all rows with aligned columns.
pub(super) fn render(rows: &[Value]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; HEAD.len()] = std::array::from_fn(width);
    lines.insert(1, widths.map(|width| "-".repeat(width)));
    let mut text = String::new();
    for line in lines {
        for (cell, width) in line.iter().zip(widths) {
            text.push_str(&format!("| {cell:<width$} "));
        }
        text.push_str("|\n");
    }
    text
}

fn cells(row: &Value) -> [String; HEAD.len()] {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let unit = match text("unit") {
        unit if unit.is_empty() => String::new(),
        unit => format!(" {unit}"),
    };
    let number = |value: f64| if value >= 100.0 { format!("{value:.0}{unit}") } else { format!("{value:.2}{unit}") };
    let bound = |key: &str| row["aim"][key].as_f64();
    let aim = match (bound("at_least"), bound("at_most")) {
        (Some(least), _) => format!("at least {least}{unit}"),
        (_, Some(most)) => format!("at most {most}{unit}"),
        (None, None) => String::new(),
    };
    let met = match (row["value"].is_null(), row["met"].as_bool()) {
        (true, _) => "skipped",
        (_, Some(true)) => "yes",
        (_, Some(false)) => "no",
        (_, None) => "",
    };
    let value = row["value"].as_f64().map(number).unwrap_or_default();
    [text("row"), text("what"), text("product"), text("baseline"), value, aim, met.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::render;
    use serde_json::json;

    #[test]
    fn rows_are_met_missed_shown_or_skipped() {
        let rows = [
            json!({"row": "read", "what": "w", "product": "7 /s", "baseline": "b: 9 /s", "value": 0.777, "unit": "", "aim": {"at_least": 0.7}, "met": true}),
            json!({"row": "memory", "what": "w", "product": "90.0 MiB", "baseline": "", "value": 90.0, "unit": "MiB", "aim": {"at_most": 64.0}, "met": false}),
            json!({"row": "start", "what": "w", "product": "412.0 ms", "baseline": "", "value": 412.0, "unit": "ms", "aim": null, "met": null}),
            json!({"row": "other", "what": "no such program", "product": "", "baseline": "", "value": null, "unit": "", "aim": null, "met": null}),
        ];
        let expected = "\
| row    | what            | product  | baseline | ratio     | aim            | met     |
| ------ | --------------- | -------- | -------- | --------- | -------------- | ------- |
| read   | w               | 7 /s     | b: 9 /s  | 0.78      | at least 0.7   | yes     |
| memory | w               | 90.0 MiB |          | 90.00 MiB | at most 64 MiB | no      |
| start  | w               | 412.0 ms |          | 412 ms    |                |         |
| other  | no such program |          |          |           |                | skipped |
";
        assert_eq!(render(&rows), expected);
    }
}
