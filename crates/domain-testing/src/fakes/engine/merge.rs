//! Three-way merges, row by row and cell by cell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Result;
use super::commits::CommitGraph;
use super::table::{Key, Snapshot, StoredRow, Table};
use branchyard_domain::entities::{Cell, Conflict, ConflictKind, ResolvedRow, RowResolution, Side};
use branchyard_domain::ports::{EngineError, MergeJob, MergeOutcome};
use branchyard_domain::values::CommitHash;

/// The result of a merge: the tables, and the conflicts that remain.
struct Merged {
    tables: Snapshot,
    conflicts: Vec<Conflict>,
    /// Number of decisions about rows that were in conflict.
    used_rows: usize,
}

pub(super) fn merge(history: &mut CommitGraph, job: &MergeJob<'_>) -> Result<MergeOutcome> {
    let MergeJob { ours, theirs, message, author, resolve, rows, fast_forward, .. } = *job;
    if history.is_ancestor(theirs, ours)? {
        return Ok(MergeOutcome::Head(ours.clone()));
    }
    if fast_forward && history.is_ancestor(ours, theirs)? {
        return Ok(MergeOutcome::Head(theirs.clone()));
    }
    let merged = three_way(history, ours, theirs, resolve, rows)?;
    if merged.conflicts.is_empty() {
        let parents = vec![ours.clone(), theirs.clone()];
        return Ok(MergeOutcome::Head(history.add(parents, message, author, Arc::new(merged.tables))));
    }
    let mut counts: Vec<(String, u64)> = Vec::new();
    for conflict in merged.conflicts {
        match counts.last_mut() {
            Some((table, count)) if *table == conflict.table => *count += 1,
            _ => counts.push((conflict.table, 1)),
        }
    }
    Ok(MergeOutcome::Conflicts(counts))
}

pub(super) fn conflicts(history: &CommitGraph, ours: &CommitHash, theirs: &CommitHash) -> Result<Vec<Conflict>> {
    Ok(three_way(history, ours, theirs, &BTreeMap::new(), &[])?.conflicts)
}

fn three_way(
    history: &CommitGraph,
    ours: &CommitHash,
    theirs: &CommitHash,
    resolve: &BTreeMap<String, Side>,
    rows: &[RowResolution],
) -> Result<Merged> {
    let base = history.merge_base(ours, theirs)?;
    let base = base.ok_or_else(|| EngineError::CannotMerge("no common history".to_owned()))?;
    let base = &history.get(&base)?.tables;
    let (ours, theirs) = (&history.get(ours)?.tables, &history.get(theirs)?.tables);
    let names: BTreeSet<&String> = ours.0.keys().chain(theirs.0.keys()).chain(base.0.keys()).collect();
    let mut merged = Merged { tables: Snapshot::default(), conflicts: Vec::new(), used_rows: 0 };
    let mut decided = 0;
    for name in names {
        let winner = resolve.iter().find(|(table, _)| table.eq_ignore_ascii_case(name)).map(|(_, side)| *side);
        let rows: Vec<_> = rows.iter().filter(|row| row.table.eq_ignore_ascii_case(name)).collect();
        decided += rows.len();
        let sides = Sides { base: base.find(name), ours: ours.find(name), theirs: theirs.find(name), winner, rows };
        let used = &mut merged.used_rows;
        if let Some(table) = sides.merge(&mut merged.conflicts, used) {
            merged.tables.put(table);
        }
    }
    if decided != rows.len() || merged.used_rows != decided {
        return Err(EngineError::CannotMerge("a row is not in conflict".to_owned()));
    }
    Ok(merged)
}

/// One table on three commits, and the side that wins conflicts.
struct Sides<'a> {
    base: Option<&'a Table>,
    ours: Option<&'a Table>,
    theirs: Option<&'a Table>,
    winner: Option<Side>,
    rows: Vec<&'a RowResolution>,
}

impl Sides<'_> {
    fn merge(&self, conflicts: &mut Vec<Conflict>, used: &mut usize) -> Option<Table> {
        if self.ours == self.theirs || self.theirs == self.base {
            return self.ours.cloned();
        }
        if self.ours == self.base {
            return self.theirs.cloned();
        }
        match (self.ours, self.theirs) {
            (Some(ours), Some(theirs)) if ours.definition == theirs.definition => {
                Some(self.merge_rows(ours, theirs, conflicts, used))
            }
            (ours, theirs) => match self.winner {
                Some(Side::Ours) => ours.cloned(),
                Some(Side::Theirs) => theirs.cloned(),
                None => {
                    let table = ours.or(theirs).map(|table| table.definition.name.clone()).unwrap_or_default();
                    conflicts.push(Conflict {
                        table,
                        kind: ConflictKind::Schema,
                        primary_key: Vec::new(),
                        base: None,
                        ours: None,
                        theirs: None,
                        detail: Some("both sides changed the definition".to_owned()),
                    });
                    None
                }
            },
        }
    }

    /// Returns the decision about a row.
    fn decision(&self, table: &Table, key: &Key) -> Option<&ResolvedRow> {
        let is_same = |(name, cell): &(String, Cell), row: &RowResolution| {
            row.primary_key.iter().any(|(other, given)| other.eq_ignore_ascii_case(name) && shows(given, cell))
        };
        let key = table.named_key(key);
        let found = self.rows.iter().find(|row| key.iter().all(|cell| is_same(cell, row)));
        found.map(|row| &row.becomes)
    }

    fn merge_rows(&self, ours: &Table, theirs: &Table, conflicts: &mut Vec<Conflict>, used: &mut usize) -> Table {
        let base = self.base.filter(|base| base.definition == ours.definition);
        let keys: BTreeSet<&Key> = base.into_iter().chain([ours, theirs]).flat_map(|table| table.rows.keys()).collect();
        let mut merged = Table { definition: ours.definition.clone(), rows: BTreeMap::new() };
        for key in keys {
            let rows = (base.and_then(|base| base.rows.get(key)), ours.rows.get(key), theirs.rows.get(key));
            let merged_row = merge_row(rows);
            let decision = if merged_row.is_none() { self.decision(ours, key) } else { None };
            *used += usize::from(decision.is_some());
            let winner = match decision {
                Some(ResolvedRow::Of(side)) => Some(*side),
                Some(ResolvedRow::With(values)) => {
                    let mut row = rows.1.or(rows.2).cloned().unwrap_or_default();
                    for (column, value) in values {
                        if let Some(at) = ours.column(column) {
                            row[at] = ours.definition.columns[at].convert(value.clone());
                        }
                    }
                    merged.rows.insert(key.clone(), row);
                    continue;
                }
                None => self.winner,
            };
            let row = match (merged_row, winner) {
                (Some(row), _) => row,
                (None, Some(Side::Ours)) => rows.1.cloned(),
                (None, Some(Side::Theirs)) => rows.2.cloned(),
                (None, None) => {
                    let named = |row: Option<&Vec<Cell>>| row.map(|row| ours.named(row));
                    conflicts.push(Conflict {
                        table: ours.definition.name.clone(),
                        kind: ConflictKind::Row,
                        primary_key: ours.named_key(key),
                        base: named(rows.0),
                        ours: named(rows.1),
                        theirs: named(rows.2),
                        detail: None,
                    });
                    None
                }
            };
            if let Some(row) = row {
                merged.rows.insert(key.clone(), row);
            }
        }
        merged
    }
}

/// Returns `true` if a value that a caller wrote means a stored one.
fn shows(given: &Cell, stored: &Cell) -> bool {
    match (given, stored) {
        (Cell::Text(text), Cell::Integer(number)) => *text == number.to_string().into_bytes(),
        (given, stored) => given == stored,
    }
}

/// Merges a row. Returns `None` for a conflict and `Some(None)` for a deleted row.
fn merge_row((base, ours, theirs): (StoredRow<'_>, StoredRow<'_>, StoredRow<'_>)) -> Option<Option<Vec<Cell>>> {
    if ours == theirs || theirs == base {
        return Some(ours.cloned());
    }
    if ours == base {
        return Some(theirs.cloned());
    }
    let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else { return None };
    let cells = base.iter().zip(ours).zip(theirs).map(|((base, ours), theirs)| {
        if ours == theirs || theirs == base { Some(ours.clone()) } else { (ours == base).then(|| theirs.clone()) }
    });
    cells.collect::<Option<Vec<Cell>>>().map(Some)
}
