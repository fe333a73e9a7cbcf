//! Three-way merges, row by row and cell by cell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Result;
use super::commits::CommitGraph;
use super::table::{Key, Snapshot, StoredRow, Table};
use branchyard_domain::entities::{Cell, Conflict, ConflictKind, Side, Signature};
use branchyard_domain::ports::{EngineError, MergeOutcome};
use branchyard_domain::values::CommitHash;

/// The result of a merge: the tables, and the conflicts that remain.
struct Merged {
    tables: Snapshot,
    conflicts: Vec<Conflict>,
}

pub(super) fn merge(
    history: &mut CommitGraph,
    ours: &CommitHash,
    theirs: &CommitHash,
    message: &str,
    author: &Signature,
    resolve: &BTreeMap<String, Side>,
) -> Result<MergeOutcome> {
    if history.is_ancestor(theirs, ours)? {
        return Ok(MergeOutcome::Head(ours.clone()));
    }
    let merged = three_way(history, ours, theirs, resolve)?;
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
    Ok(three_way(history, ours, theirs, &BTreeMap::new())?.conflicts)
}

fn three_way(
    history: &CommitGraph,
    ours: &CommitHash,
    theirs: &CommitHash,
    resolve: &BTreeMap<String, Side>,
) -> Result<Merged> {
    let base = history.merge_base(ours, theirs)?;
    let base = base.ok_or_else(|| EngineError::CannotMerge("no common history".to_owned()))?;
    let base = &history.get(&base)?.tables;
    let (ours, theirs) = (&history.get(ours)?.tables, &history.get(theirs)?.tables);
    let names: BTreeSet<&String> = ours.0.keys().chain(theirs.0.keys()).chain(base.0.keys()).collect();
    let mut merged = Merged { tables: Snapshot::default(), conflicts: Vec::new() };
    for name in names {
        let winner = resolve.iter().find(|(table, _)| table.eq_ignore_ascii_case(name)).map(|(_, side)| *side);
        let sides = Sides { base: base.find(name), ours: ours.find(name), theirs: theirs.find(name), winner };
        if let Some(table) = sides.merge(&mut merged.conflicts) {
            merged.tables.put(table);
        }
    }
    Ok(merged)
}

/// One table on three commits, and the side that wins conflicts.
struct Sides<'a> {
    base: Option<&'a Table>,
    ours: Option<&'a Table>,
    theirs: Option<&'a Table>,
    winner: Option<Side>,
}

impl Sides<'_> {
    fn merge(&self, conflicts: &mut Vec<Conflict>) -> Option<Table> {
        if self.ours == self.theirs || self.theirs == self.base {
            return self.ours.cloned();
        }
        if self.ours == self.base {
            return self.theirs.cloned();
        }
        match (self.ours, self.theirs) {
            (Some(ours), Some(theirs)) if ours.definition == theirs.definition => {
                Some(self.merge_rows(ours, theirs, conflicts))
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

    fn merge_rows(&self, ours: &Table, theirs: &Table, conflicts: &mut Vec<Conflict>) -> Table {
        let base = self.base.filter(|base| base.definition == ours.definition);
        let keys: BTreeSet<&Key> = base.into_iter().chain([ours, theirs]).flat_map(|table| table.rows.keys()).collect();
        let mut merged = Table { definition: ours.definition.clone(), rows: BTreeMap::new() };
        for key in keys {
            let rows = (base.and_then(|base| base.rows.get(key)), ours.rows.get(key), theirs.rows.get(key));
            let row = match (merge_row(rows), self.winner) {
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
