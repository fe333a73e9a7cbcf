//! The topics, one module each. Each topic returns its rows.

mod builds;
mod clones;
mod forks;
mod hooks;
mod hrana;
mod imports;
mod isolation;
mod lists;
mod merges;
mod nodes;
mod overload;
mod pages;
mod peers;
mod postgres;
mod pushes;
mod reads;
mod scale;
mod sides;
mod start;
mod streams;
mod tokens;
mod web;
mod workbench;
mod writers;
mod writes;

use crate::flags::Flags;
use crate::report::Row;

/// The name of a topic and the function that measures it.
pub(crate) type Topic = (&'static str, fn(&Flags) -> Vec<Row>);

/// The topics in the order of the table.
pub(crate) const TOPICS: &[Topic] = &[
    ("start", start::run),
    ("reads", reads::run),
    ("tokens", tokens::run),
    ("pages", pages::run),
    ("isolation", isolation::run),
    ("streams", streams::run),
    ("writes", writes::run),
    ("postgres", postgres::run),
    ("nodes", nodes::run),
    ("imports", imports::run),
    ("forks", forks::run),
    ("clones", clones::run),
    ("pushes", pushes::run),
    ("merges", merges::run),
    ("lists", lists::run),
    ("web", web::run),
    ("workbench", workbench::run),
    ("hooks", hooks::run),
    ("hrana", hrana::run),
    ("overload", overload::run),
    ("scale", scale::run),
    ("builds", builds::run),
    ("peers", peers::run),
];
