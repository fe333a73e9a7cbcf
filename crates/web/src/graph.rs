//! Draws the lines that connect the commits of a list, row by row.

use std::fmt::Write as _;

use branchyard_domain::values::CommitHash;

use crate::format::Markup;

/// Maximum number of parallel lanes. Further lanes share the last one.
const LANES: usize = 8;
/// Pixels between lanes.
const STEP: usize = 14;
/// Height of a row in pixels. The style sheet uses the same height.
pub(crate) const ROW: usize = 56;

/// The drawing next to one commit.
#[derive(Debug, PartialEq, Eq)]
struct GraphRow {
    /// The lane of the commit.
    at: usize,
    /// Lines from the upper edge to the commit, by lane.
    into: Vec<usize>,
    /// Lanes that pass the commit.
    past: Vec<usize>,
    /// Lines from the commit to the lower edge, by lane.
    out: Vec<usize>,
}

/// Draws the commits of a list, children before parents. With `goes_on`, the list continues an earlier page.
pub(crate) fn draw<'a>(
    commits: impl Iterator<Item = (&'a CommitHash, &'a [CommitHash])>,
    goes_on: bool,
) -> Vec<Markup> {
    let rows = lay_out(commits, goes_on);
    let widest = rows.iter().flat_map(|row| row.into.iter().chain(&row.past).chain(&row.out).chain([&row.at])).max();
    let width = (widest.copied().unwrap_or(0).min(LANES - 1) + 1) * STEP;
    rows.iter().map(|row| svg(row, width)).collect()
}

fn lay_out<'a>(commits: impl Iterator<Item = (&'a CommitHash, &'a [CommitHash])>, goes_on: bool) -> Vec<GraphRow> {
    // The commit each lane leads to.
    let mut lanes: Vec<Option<&CommitHash>> = Vec::new();
    let mut rows = Vec::new();
    for (commit, parents) in commits {
        if goes_on && rows.is_empty() {
            lanes.push(Some(commit));
        }
        let into: Vec<usize> = leading_to(&lanes, commit);
        let at = into.first().copied().unwrap_or_else(|| free(&mut lanes));
        for lane in into.iter().chain([&at]) {
            lanes[*lane] = None;
        }
        let past = lanes.iter().enumerate().filter(|(_, lane)| lane.is_some()).map(|(lane, _)| lane).collect();
        let mut out = Vec::new();
        for (nth, parent) in parents.iter().enumerate() {
            // The first parent stays in its lane. Lanes that lead to the same commit join.
            let lane = match leading_to(&lanes, parent).first() {
                _ if nth == 0 => at,
                Some(lane) => *lane,
                None => free(&mut lanes),
            };
            lanes[lane] = Some(parent);
            out.push(lane);
        }
        while lanes.last().is_some_and(Option::is_none) {
            lanes.pop();
        }
        rows.push(GraphRow { at, into, past, out });
    }
    rows
}

fn leading_to(lanes: &[Option<&CommitHash>], commit: &CommitHash) -> Vec<usize> {
    lanes.iter().enumerate().filter(|(_, lane)| **lane == Some(commit)).map(|(lane, _)| lane).collect()
}

fn free(lanes: &mut Vec<Option<&CommitHash>>) -> usize {
    lanes.iter().position(Option::is_none).unwrap_or_else(|| {
        lanes.push(None);
        lanes.len() - 1
    })
}

fn svg(row: &GraphRow, width: usize) -> Markup {
    let mut text = format!(
        "<svg class=\"graph\" width=\"{width}\" height=\"{ROW}\" viewBox=\"0 0 {width} {ROW}\" aria-hidden=\"true\">"
    );
    let middle = ROW / 2;
    for lane in &row.past {
        line(&mut text, (*lane, 0), (*lane, ROW), *lane);
    }
    for lane in &row.into {
        line(&mut text, (*lane, 0), (row.at, middle), *lane);
    }
    for lane in &row.out {
        line(&mut text, (row.at, middle), (*lane, ROW), *lane);
    }
    // Writing to a string cannot fail.
    let _ =
        write!(text, "<circle class=\"lane-{}\" cx=\"{}\" cy=\"{middle}\" r=\"4\"/></svg>", color(row.at), x(row.at));
    Markup::trusted(text)
}

fn line(text: &mut String, (from, top): (usize, usize), (to, bottom): (usize, usize), lane: usize) {
    let (from, to, half) = (x(from), x(to), (top + bottom) / 2);
    let way = if from == to { format!("V{bottom}") } else { format!("C{from} {half} {to} {half} {to} {bottom}") };
    let _ = write!(text, "<path class=\"lane-{}\" d=\"M{from} {top}{way}\"/>", color(lane));
}

fn x(lane: usize) -> usize {
    lane.min(LANES - 1) * STEP + STEP / 2
}

fn color(lane: usize) -> usize {
    lane % 6
}

#[cfg(test)]
mod tests {
    use super::{GraphRow, draw, lay_out};
    use branchyard_domain::values::CommitHash;

    fn hash(digit: char) -> CommitHash {
        CommitHash::parse(&digit.to_string().repeat(40)).unwrap()
    }

    fn commits(text: &[(char, &str)]) -> Vec<(CommitHash, Vec<CommitHash>)> {
        text.iter().map(|(commit, parents)| (hash(*commit), parents.chars().map(hash).collect())).collect()
    }

    #[test]
    fn a_merge_opens_a_lane_that_ends_where_both_sides_parted() {
        let list = commits(&[('e', "cd"), ('d', "b"), ('c', "b"), ('b', "a"), ('a', "")]);
        let rows = lay_out(list.iter().map(|(commit, parents)| (commit, &parents[..])), false);
        let row = |at, into: &[usize], past: &[usize], out: &[usize]| GraphRow {
            at,
            into: into.to_vec(),
            past: past.to_vec(),
            out: out.to_vec(),
        };
        assert_eq!(
            rows,
            [
                row(0, &[], &[], &[0, 1]),
                row(1, &[1], &[0], &[1]),
                row(0, &[0], &[1], &[0]),
                row(0, &[0, 1], &[], &[0]),
                row(0, &[0], &[], &[]),
            ]
        );
    }

    #[test]
    fn a_page_that_goes_on_has_a_line_from_above_and_many_lanes_stay_within_bounds() {
        let line = commits(&[('b', "a")]);
        let shown = |goes_on| draw(line.iter().map(|(c, p)| (c, &p[..])), goes_on)[0].to_string();
        assert!(shown(true).contains("M7 0V28"), "{}", shown(true));
        assert!(!shown(false).contains("M7 0"), "{}", shown(false));
        let fan: String = "0123456789ab".to_owned();
        let wide = commits(&[('f', &fan)]);
        let drawn = draw(wide.iter().map(|(c, p)| (c, &p[..])), false)[0].to_string();
        assert!(drawn.contains("width=\"112\""), "{drawn}");
    }
}
