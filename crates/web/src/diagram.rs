//! Draws tables and their foreign keys as SVG. Tables stand to the left of the tables they reference.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use branchyard_domain::entities::TableSchema;

use crate::format::{Markup, escaped};

/// Maximum number of tables in a diagram. More would be unreadable.
pub(crate) const MOST_TABLES: usize = 60;

/// Columns drawn per table. The number of further columns is shown.
const MOST_COLUMNS: usize = 12;
/// Characters drawn of a name.
const MOST_CHARACTERS: usize = 28;

// All lengths are in units of the drawing, about a pixel each.
const CHARACTER: usize = 8;
const LINE: usize = 22;
const HEAD: usize = 30;
const PAD: usize = 12;
const GAP_X: usize = 72;
const GAP_Y: usize = 28;
/// Tables without any reference stand in rows below the others, this many per row.
const LOOSE_ABREAST: usize = 4;

struct Box<'a> {
    table: &'a TableSchema,
    x: usize,
    y: usize,
    width: usize,
}

impl<'a> Box<'a> {
    fn new(table: &'a TableSchema) -> Self {
        let line = |name: &str, declared: &str| characters(name) + characters(declared) + 3;
        let lines = table.columns.iter().take(MOST_COLUMNS).map(|column| line(&column.name, &column.declared_type));
        let widest = lines.chain([characters(&table.name) + 2]).max().unwrap_or_default();
        Self { table, x: 0, y: 0, width: widest * CHARACTER + 2 * PAD }
    }

    fn lines(&self) -> usize {
        self.table.columns.len().min(MOST_COLUMNS) + usize::from(self.table.columns.len() > MOST_COLUMNS)
    }

    fn height(&self) -> usize {
        HEAD + self.lines() * LINE + PAD / 2
    }

    /// Returns the vertical center of a column's line, or of the last line if the column is not drawn.
    fn middle_of(&self, column: &str) -> usize {
        let at = self.table.columns.iter().position(|known| known.name.eq_ignore_ascii_case(column)).unwrap_or(0);
        self.y + HEAD + at.min(self.lines().saturating_sub(1)) * LINE + LINE / 2
    }
}

/// Draws the tables. `href` returns the page of a table.
pub(crate) fn draw(tables: &[&TableSchema], href: impl Fn(&str) -> String) -> Markup {
    let boxes = place(tables);
    let width = boxes.iter().map(|placed| placed.x + placed.width).max().unwrap_or_default() + 2;
    let height = boxes.iter().map(|placed| placed.y + placed.height()).max().unwrap_or_default() + 2;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg class=\"diagram\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"group\" \
         aria-label=\"Tables and their foreign keys\"><defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker></defs>"
    );
    for from in &boxes {
        for key in &from.table.foreign_keys {
            let to = boxes.iter().find(|other| other.table.name.eq_ignore_ascii_case(&key.references_table));
            let (Some(to), Some(column)) = (to, key.columns.first()) else { continue };
            let target = key.references_columns.first().or(to.table.primary_key.first());
            edge(&mut svg, from, from.middle_of(column), to, target.map_or(to.y + HEAD / 2, |name| to.middle_of(name)));
        }
    }
    for placed in &boxes {
        draw_box(&mut svg, placed, &href(&placed.table.name));
    }
    svg.push_str("</svg>");
    Markup::trusted(svg)
}

fn edge(svg: &mut String, from: &Box<'_>, from_y: usize, to: &Box<'_>, to_y: usize) {
    let bend = GAP_X / 2;
    let path = if from.x + from.width <= to.x {
        let (start, end) = (from.x + from.width, to.x);
        format!("M{start} {from_y}C{} {from_y} {} {to_y} {end} {to_y}", start + bend, end - bend)
    } else {
        // The target is in the same column or further left: the edge leaves and enters on the right.
        let (start, end) = (from.x + from.width, to.x + to.width);
        let out = start.max(end) + bend;
        format!("M{start} {from_y}C{out} {from_y} {out} {to_y} {end} {to_y}")
    };
    let _ = write!(svg, "<path class=\"edge\" d=\"{path}\" marker-end=\"url(#arrow)\"/>");
}

fn draw_box(svg: &mut String, placed: &Box<'_>, href: &str) {
    let Box { table, x, y, width } = placed;
    let _ = write!(
        svg,
        "<g><rect class=\"table\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" rx=\"6\"/>\
         <a href=\"{}\"><text class=\"title\" x=\"{}\" y=\"{}\">{}</text></a>\
         <path class=\"rule\" d=\"M{x} {}h{width}\"/>",
        placed.height(),
        escaped(href),
        x + PAD,
        y + 20,
        escaped(&cut(&table.name)),
        y + HEAD,
    );
    for (line, column) in table.columns.iter().take(MOST_COLUMNS).enumerate() {
        let base = y + HEAD + line * LINE + 15;
        let class = if column.in_primary_key { "key" } else { "" };
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{}\" y=\"{base}\">{}</text><text class=\"type\" x=\"{}\" y=\"{base}\">{}</text>",
            x + PAD,
            escaped(&cut(&column.name)),
            x + width - PAD,
            escaped(&cut(&column.declared_type)),
        );
    }
    if let Some(rest) = table.columns.len().checked_sub(MOST_COLUMNS).filter(|rest| *rest > 0) {
        let base = y + HEAD + MOST_COLUMNS * LINE + 15;
        let _ = write!(svg, "<text class=\"more\" x=\"{}\" y=\"{base}\">and {rest} more</text>", x + PAD);
    }
    svg.push_str("</g>");
}

/// Places the tables. Each stands one column to the left of the tables it references, except in cycles.
fn place<'a>(tables: &[&'a TableSchema]) -> Vec<Box<'a>> {
    let index: BTreeMap<String, usize> =
        tables.iter().enumerate().map(|(at, table)| (table.name.to_ascii_lowercase(), at)).collect();
    let targets: Vec<Vec<usize>> = tables
        .iter()
        .enumerate()
        .map(|(at, table)| {
            let keys =
                table.foreign_keys.iter().filter_map(|key| index.get(&key.references_table.to_ascii_lowercase()));
            keys.copied().filter(|target| *target != at).collect()
        })
        .collect();
    let is_related = |at: usize| !targets[at].is_empty() || targets.iter().any(|of| of.contains(&at));
    let mut depth = vec![0_usize; tables.len()];
    // Without cycles, the depths settle after at most as many rounds as there are tables.
    for _ in 0..tables.len() {
        for (at, of) in targets.iter().enumerate() {
            let deepest = of.iter().map(|target| depth[*target] + 1).max().unwrap_or_default();
            depth[at] = deepest.min(tables.len() - 1);
        }
        if targets.iter().enumerate().all(|(at, of)| of.iter().all(|target| depth[*target] < depth[at])) {
            break;
        }
    }
    let mut columns: BTreeMap<std::cmp::Reverse<usize>, Vec<usize>> = BTreeMap::new();
    let mut loose = Vec::new();
    for (at, depth) in depth.into_iter().enumerate() {
        if is_related(at) {
            columns.entry(std::cmp::Reverse(depth)).or_default().push(at);
        } else {
            loose.push(at);
        }
    }
    let mut boxes: Vec<Box<'a>> = tables.iter().map(|table| Box::new(table)).collect();
    let (mut x, mut lowest) = (1, 1);
    for members in columns.values() {
        let (mut y, mut widest) = (1, 0);
        for at in members {
            boxes[*at].x = x;
            boxes[*at].y = y;
            y += boxes[*at].height() + GAP_Y;
            widest = widest.max(boxes[*at].width);
        }
        x += widest + GAP_X;
        lowest = lowest.max(y);
    }
    for row in loose.chunks(LOOSE_ABREAST) {
        let (mut x, mut tallest) = (1, 0);
        for at in row {
            boxes[*at].x = x;
            boxes[*at].y = lowest;
            x += boxes[*at].width + GAP_Y;
            tallest = tallest.max(boxes[*at].height());
        }
        lowest += tallest + GAP_Y;
    }
    boxes
}

fn characters(text: &str) -> usize {
    text.chars().count().min(MOST_CHARACTERS)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS - 1) {
        Some((end, _)) if text.chars().count() > MOST_CHARACTERS => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{draw, place};
    use branchyard_domain::entities::{ForeignKey, TableColumn, TableKind, TableSchema};

    fn table(name: &str, columns: &[&str], refers: &[&str]) -> TableSchema {
        let column = |name: &&str| TableColumn {
            name: (*name).to_owned(),
            declared_type: "INTEGER".to_owned(),
            nullable: true,
            default: None,
            in_primary_key: *name == "id",
            is_generated: false,
        };
        let key = |table: &&str| ForeignKey {
            columns: vec![columns[0].to_owned()],
            references_table: (*table).to_owned(),
            references_columns: Vec::new(),
        };
        TableSchema {
            name: name.to_owned(),
            kind: TableKind::Table,
            columns: columns.iter().map(column).collect(),
            primary_key: vec!["id".to_owned()],
            indexes: Vec::new(),
            foreign_keys: refers.iter().map(key).collect(),
            triggers: Vec::new(),
            create_statement: String::new(),
        }
    }

    #[test]
    fn a_table_stands_left_of_those_it_refers_to_and_none_overlap() {
        let tables = [
            table("cities", &["id", "country"], &["countries"]),
            table("countries", &["id"], &["continents"]),
            table("continents", &["id"], &[]),
            table("notes", &["id"], &[]),
        ];
        let tables: Vec<&TableSchema> = tables.iter().collect();
        let boxes = place(&tables);
        assert!(boxes[0].x < boxes[1].x && boxes[1].x < boxes[2].x);
        assert!(boxes[3].y > boxes[0].y, "what is alone stands below");
        for (at, a) in boxes.iter().enumerate() {
            for b in &boxes[at + 1..] {
                let apart_x = a.x + a.width <= b.x || b.x + b.width <= a.x;
                let apart_y = a.y + a.height() <= b.y || b.y + b.height() <= a.y;
                assert!(apart_x || apart_y, "{} and {}", a.table.name, b.table.name);
            }
        }
    }

    #[test]
    fn circles_end_and_names_are_escaped() {
        let tables = [table("a", &["id"], &["b", "a"]), table("b", &["<b onclick=x>"], &["a"])];
        let tables: Vec<&TableSchema> = tables.iter().collect();
        let svg = draw(&tables, |name| format!("/t/{name}")).to_string();
        assert_eq!(svg.matches("class=\"edge\"").count(), 3);
        assert!(!svg.contains("<b"), "{svg}");
    }
}
